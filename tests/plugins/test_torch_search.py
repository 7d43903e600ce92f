"""Interpreters with torch on machines of every layout, found without importing anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.module_utils import torch_search
from ansible.module_utils.torch_search import Found


def torch(root: Path, packages: str, version: str = "2.13.0+cu130", cuda: str | None = "13.0") -> None:
    """A torch in that site-packages folder."""
    file = root / packages / "torch/version.py"
    file.parent.mkdir(parents=True)
    word = "None" if cuda is None else f"'{cuda}'"
    file.write_text(
        f"from typing import Optional\n__version__ = '{version}'\ndebug = False\ncuda: Optional[str] = {word}\n"
    )


def program(root: Path, path: str, target: str | None = None) -> str:
    """An executable there, or a link to one."""
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    if target:
        file.symlink_to(target)
    else:
        file.write_text("#!/bin/sh\n")
        file.chmod(0o755)
    return str(file)


@pytest.mark.parametrize(
    ("packages", "interpreter"),
    [
        ("opt/conda/lib/python3.11/site-packages", "opt/conda/bin/python3.11"),
        ("opt/miniforge3/envs/ml/lib/python3.12/site-packages", "opt/miniforge3/envs/ml/bin/python3.12"),
        ("root/miniconda3/lib/python3.8/site-packages", "root/miniconda3/bin/python3.8"),
        ("home/ubuntu/venv/lib/python3.13/site-packages", "home/ubuntu/venv/bin/python3.13"),
        ("workspace/env/lib/python3.10/site-packages", "workspace/env/bin/python3.10"),
        ("venv/main/lib/python3.12/site-packages", "venv/main/bin/python3.12"),
        ("venv/lib/python3.12/site-packages", "venv/bin/python"),
        ("opt/x/lib64/python3.9/site-packages", "opt/x/bin/python3"),
        ("usr/lib/python3/dist-packages", "usr/bin/python3"),
        ("usr/local/lib/python3.10/dist-packages", "usr/bin/python3.10"),
        ("usr/local/lib/python3.11/site-packages", "usr/local/bin/python3.11"),
        ("usr/lib64/python3.9/site-packages", "usr/bin/python3.9"),
    ],
)
def test_every_layout_is_found(tmp_path: Path, packages: str, interpreter: str) -> None:
    """System, Debian's, pip's, conda, conda environment, venv in the usual places."""
    torch(tmp_path, packages)
    path = program(tmp_path, interpreter)
    (found,) = torch_search.search(str(tmp_path), home=str(tmp_path / "nobody"))
    assert (found.interpreter, found.torch, found.cuda) == (path, "2.13.0+cu130", "13.0")


def test_cuda_comes_before_cpu_and_new_before_old(tmp_path: Path) -> None:
    """A CPU build is the last resort, whatever its version."""
    for name, version, cuda in (("a", "2.14.0+cpu", None), ("b", "2.9.1", "12.8"), ("c", "2.13.0", "13.0")):
        torch(tmp_path, f"opt/{name}/lib/python3.11/site-packages", version, cuda)
        program(tmp_path, f"opt/{name}/bin/python3")
    found = torch_search.search(str(tmp_path), home=str(tmp_path / "nobody"))
    assert [one.torch for one in found] == ["2.13.0", "2.9.1", "2.14.0+cpu"]


@pytest.mark.parametrize(
    ("driver", "first", "why"),
    [
        (None, "2.13.0", "the newest torch with CUDA of 3; passed over: "),
        (580, "2.13.0", "the newest torch with CUDA that driver 580 runs of 3; "),
        (570, "2.9.1", "the only torch with CUDA that driver 570 runs of 3; "),
    ],
)
def test_a_build_that_the_driver_runs_comes_first(tmp_path: Path, driver: int | None, first: str, why: str) -> None:
    """CUDA 13 needs driver 580; which one wins, against which, is a sentence."""
    for name, version, cuda in (("a", "2.14.0+cpu", None), ("b", "2.9.1", "12.8"), ("c", "2.13.0", "13.0")):
        torch(tmp_path, f"opt/{name}/lib/python3.11/site-packages", version, cuda)
        program(tmp_path, f"opt/{name}/bin/python3")
    found = torch_search.search(str(tmp_path), home=str(tmp_path / "nobody"), driver=driver)
    assert found[0].torch == first and found[2].torch == "2.14.0+cpu"
    said = torch_search.why(found, driver)
    assert said.startswith(why) and f"{tmp_path}/opt/a/bin/python3 (torch 2.14.0+cpu, no CUDA)" in said


def test_why_where_there_is_no_choice(tmp_path: Path) -> None:
    """None, or one."""
    assert torch_search.why([]) == "no Python here has torch"
    one = Found("/opt/conda/bin/python", "2.13.0", "13.0", (3, 12))
    assert torch_search.why([one]) == "the only Python here with torch"


def test_what_cannot_be_used_is_not_offered(tmp_path: Path) -> None:
    """Python 3.7, an environment without interpreter, a version file that says nothing."""
    torch(tmp_path, "opt/old/lib/python3.7/site-packages")
    program(tmp_path, "opt/old/bin/python3")
    torch(tmp_path, "opt/broken/lib/python3.11/site-packages")
    torch(tmp_path, "opt/odd/lib/python3.11/site-packages", version="$(reboot) x")
    program(tmp_path, "opt/odd/bin/python3")
    assert torch_search.search(str(tmp_path), home=str(tmp_path / "nobody")) == []


def test_the_path_of_an_images_first_process_is_searched(tmp_path: Path) -> None:
    """A container image sets ENV PATH, which an SSH login does not get."""
    torch(tmp_path, "strange/place/lib/python3.12/site-packages")
    path = program(tmp_path, "strange/place/bin/python3.12")
    (tmp_path / "proc/1").mkdir(parents=True)
    (tmp_path / "proc/1/environ").write_bytes(b"A=1\0PATH=/strange/place/bin:/usr/bin\0")
    (found,) = torch_search.search(str(tmp_path), home=str(tmp_path / "nobody"))
    assert found == Found(path, "2.13.0+cu130", "13.0", (3, 12))


def test_a_home_and_a_users_own_packages(tmp_path: Path) -> None:
    """pip install --user belongs to the system's interpreter of the same version."""
    torch(tmp_path, "home/me/.local/lib/python3.10/site-packages", "2.8.0")
    program(tmp_path, "usr/bin/python3.10")
    torch(tmp_path, "home/me/.venv/lib/python3.11/site-packages", "2.9.0")
    program(tmp_path, "home/me/.venv/bin/python3")
    found = torch_search.search(str(tmp_path), home=str(tmp_path / "home/me"))
    assert [one.torch for one in found] == ["2.9.0", "2.8.0"]
    assert found[1].interpreter == str(tmp_path / "usr/bin/python3.10")
