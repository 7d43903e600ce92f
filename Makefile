# make audit: set up and audit this machine; make test: set up and run all tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)
# CPU builds of torch, used only on a machine without an NVIDIA GPU; set it to a mirror or to "" for none.
AUDIT_TORCH_CPU_INDEX ?= https://download.pytorch.org/whl/cpu
export AUDIT_TORCH_CPU_INDEX

.PHONY: audit setup setup-test test check pyz bench bench-gpu test-scale wheelhouse clean

audit: setup pyz
	@ansible-playbook audit.yml -i inventory/local

setup: $(VENV)/.audit
setup-test: $(VENV)/.test

$(VENV)/.audit: pyproject.toml tools/setup.sh
	@PYTHON="$(PYTHON)" bash tools/setup.sh audit

$(VENV)/.test: $(VENV)/.audit
	@PYTHON="$(PYTHON)" bash tools/setup.sh test

pyz: setup
	@$(BIN)/python -m tools.build_pyz

check: setup-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	ANSIBLE_INVENTORY_UNPARSED_FAILED=False $(BIN)/ansible-lint --offline -q

test: setup-test pyz check
	$(BIN)/python -m pytest -m "not gpu and not scale"

test-scale: setup-test pyz
	$(BIN)/python -m pytest -m scale -s

bench: setup pyz
	$(BIN)/python bench/bench.py

# Audit, bench and tests of a GPU in one go of at most nine minutes: docs/benchmarks.md.
bench-gpu: setup-test
	$(BIN)/python bench/on_gpu.py

# Wheels for servers without internet: see tools/wheelhouse.py.
WHEELHOUSE ?= wheels
SERVER_PYTHON ?= 3.10
TORCH ?= 2.13.0
TORCH_INDEX ?=
ARCHITECTURE ?= x86_64
wheelhouse: setup
	@$(BIN)/python -m tools.wheelhouse $(WHEELHOUSE) --python $(SERVER_PYTHON) --torch $(TORCH) \
		--index "$(TORCH_INDEX)" --architecture $(ARCHITECTURE)

clean:
	rm -rf $(VENV) build results
