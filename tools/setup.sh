#!/usr/bin/env bash
# Makes .venv with what the auditor (audit) or its tests (test) need; says what it fetches and from where.
set -eu
what=$1
python=${PYTHON:-python3}
bin=.venv/bin

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "setup: $("$python" -V 2>&1) is too old: the auditor's controller needs Python 3.11 or newer." >&2
    echo "       Name one with: make PYTHON=python3.12 $what" >&2
    exit 1
}
if [ ! -x "$bin/python" ]; then
    "$python" -m venv .venv || {
        echo "setup: no virtual environment could be made. On Debian/Ubuntu: apt-get install python3-venv" >&2
        exit 1
    }
fi
if [ "$what" = audit ]; then
    if ls /proc/driver/nvidia/version /dev/nvidiactl >/dev/null 2>&1 || [ -z "${AUDIT_TORCH_CPU_INDEX:-}" ]; then
        echo "setup: fetching torch 2.13.0 from your package index (the CUDA build is about 3 GB)"
        "$bin/pip" install -q torch==2.13.0
    else
        echo "setup: no NVIDIA GPU here: fetching torch 2.13.0, CPU build (about 200 MB), from $AUDIT_TORCH_CPU_INDEX"
        echo "       (AUDIT_TORCH_CPU_INDEX names another index; if none answers, your package index is used: about 3 GB)"
        "$bin/pip" install -q --retries 1 --extra-index-url "$AUDIT_TORCH_CPU_INDEX" torch==2.13.0
    fi
    echo "setup: fetching the auditor's own requirements (about 60 MB)"
    PYTHONWARNINGS=ignore "$bin/pip" install -q -e .
    touch .venv/.audit
else
    echo "setup: fetching the tests' requirements (about 80 MB)"
    PYTHONWARNINGS=ignore "$bin/pip" install -q -e '.[test]'
    touch .venv/.test
fi
