"""The `audit_*` variables: understood strictly, refused in a sentence that names the server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from auditor.errors import UserError
from auditor.transport import wishes
from auditor.transport.wishes import Wishes

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"audit_profil": "quick"}, "gpu-01: audit_profil is no variable of the audit. Did you mean audit_profile?"),
        ({"audit_xyzzy": 1}, "gpu-01: audit_xyzzy is no variable of the audit. docs/inventories.md"),
        ({"audit_profile": "fast"}, "gpu-01: audit_profile: 'fast' is none of quick, standard, soak."),
        ({"audit_fail_on": "always"}, "'always' is none of never, reject, review, incomplete"),
        ({"audit_keep": "maybe"}, "audit_keep: 'maybe' is neither true nor false"),
        ({"audit_budget": "abc"}, "audit_budget: 'abc' is no number"),
        ({"audit_budget": 0}, "audit_budget: 0.0 must be above 0 seconds"),
        ({"audit_path": "data"}, "audit_path: 'data' must be an absolute path"),
        ({"audit_label": {"a": 1}}, "audit_label: {'a': 1} is no text"),
        ({"audit_only": [3]}, "audit_only: [3] cannot be used"),
        ({"audit_wheelhouse": "/nowhere"}, "make wheelhouse"),
    ],
)
def test_a_wrong_wish_is_one_sentence(variables: dict[str, Any], sentence: str) -> None:
    """Unknown names, wrong words, wrong types."""
    with pytest.raises(UserError) as error:
        wishes.read(variables, "gpu-01")
    assert sentence in str(error.value) and "\n" not in str(error.value)


def test_other_variables_are_not_ours() -> None:
    """What Ansible and the inventory call otherwise is not looked at, nor what the playbooks register."""
    assert wishes.read({"ansible_user": "root", "audit_opened": {"x": 1}, "audit_collected": 1}, "a") == Wishes()


@pytest.mark.parametrize("word", ["yes", "on", "true", True])
def test_a_switch_from_the_command_line_is_text(word: object) -> None:
    """-e audit_keep=yes arrives as text and means what it says."""
    assert wishes.read({"audit_keep": word}, "a").keep is True


def test_the_probes_command_line() -> None:
    """Every wish for the probe becomes its words; what was not wished says nothing."""
    assert Wishes().options() == ["--profile", "standard", "--device", "auto"]
    wish = wishes.read(
        {"audit_profile": "soak", "audit_only": "matmul, thermal", "audit_skip": ["dcgm"], "audit_budget": "60",
         "audit_soak_seconds": 7200, "audit_path": "/data", "audit_device": "cuda", "audit_allow_busy": True},
        "a",
    )  # fmt: skip
    assert wish.options() == [
        "--profile", "soak", "--device", "cuda", "--only", "matmul,thermal", "--skip", "dcgm", "--path", "/data",
        "--budget", "60.0", "--soak-seconds", "7200.0", "--allow-busy",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("variables", "seconds"),
    [
        ({"audit_profile": "quick"}, 900), ({}, 2700), ({"audit_profile": "soak"}, 7200),
        ({"audit_budget": 60}, 360), ({"audit_budget": 60, "audit_limit": 5}, 5),
    ],
)  # fmt: skip
def test_the_time_limit_fits_what_is_measured(variables: dict[str, Any], seconds: float) -> None:
    """A wished limit holds; else the budget or the profile decides, with room for the fixed cost."""
    assert wishes.read(variables, "a").limit_seconds == seconds


def test_every_wish_is_documented() -> None:
    """docs/inventories.md has a line for each variable, and for no other."""
    text = (ROOT / "docs/inventories.md").read_text()
    named = {word.split("`")[1] for word in text.splitlines() if word.startswith("| `audit_")}
    assert named == {f"audit_{name}" for name in Wishes.__struct_fields__}


def test_the_samples_wish_nothing_unknown() -> None:
    """The sample inventories hold only variables that exist."""
    for path in (ROOT / "inventory").glob("*/hosts.yml"):
        text = yaml.safe_load(path.read_text())

        def variables(node: Any) -> Any:
            if isinstance(node, dict):
                for key, value in node.items():
                    if str(key).startswith("audit_"):
                        yield key
                    yield from variables(value)

        assert {name.removeprefix("audit_") for name in variables(text)} <= set(Wishes.__struct_fields__), path


@pytest.mark.parametrize("name", ["only", "skip"])
def test_a_probe_that_does_not_exist_is_said_before_anything_is_contacted(name):
    """A slip of the finger must not cost a whole run, and the nearest name is offered."""
    with pytest.raises(UserError, match=r"audit_" + name + r".*'matmull' is no probe\. Did you mean matmul\?"):
        wishes.read({f"audit_{name}": "matmull"}, "gpu-01")
