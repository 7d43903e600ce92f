"""A double of libnvidia-ml and libcuda: compiled here, loaded by the real pynvml and by ctypes, told what to answer by
a machine profile in JSON. A fault is an edit of a healthy profile; the product itself is never patched.

    machine = Machine(folder, healthy("a100x8-nvswitch"))
    subprocess.run([...], env={**os.environ, **machine.environment})
    machine.change(lost(machine.profile, 3))          # also while the probe runs

Profile: `gpus[i][call]` else `gpu[call]` for a GPU's answers, `pairs["0-1"][call]` (or `"0>1"`, one direction) else
`pair[call]`; an absent answer is "not supported", `"ERR …"` a refusal, `"HANG"` a call that never returns.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
Profile = dict[str, Any]


def healthy(name: str, gpus: int | None = None) -> Profile:
    """A healthy machine; with `gpus` that many of its GPUs (copies with identities of their own past the first 8)."""
    profile: Profile = json.loads((HERE / "profiles" / f"{name}.json").read_text(encoding="utf-8"))
    if gpus is None:
        return profile
    pattern = profile["gpus"]
    profile["gpus"] = [copy.deepcopy(pattern[index % len(pattern)]) for index in range(gpus)]
    for index, gpu in enumerate(profile["gpus"][len(pattern) :], start=len(pattern)):
        gpu["nvmlDeviceGetUUID"] = f"GPU-33333333-0000-4000-8000-{index:012x}"
        gpu["nvmlDeviceGetMinorNumber"] = index
        address = f"{index // len(pattern):08x}:{gpu['nvmlDeviceGetPciInfo']['busId'][9:]}"
        gpu["nvmlDeviceGetPciInfo"]["busId"] = address
    return profile


def edited(profile: Profile, gpu: int | None = None, /, **answers: Any) -> Profile:
    """A copy in which one GPU (or all) answers otherwise."""
    profile = copy.deepcopy(profile)
    for place in range(len(profile["gpus"])) if gpu is None else [gpu]:
        profile["gpus"][place].update(answers)
    return profile


def lost(profile: Profile, gpu: int) -> Profile:
    """The GPU has fallen off the bus: every call but the count says so."""
    return edited(profile, gpu, **{"every call": "ERR GPU is lost", "nvmlDeviceGetHandleByIndex": "ERR GPU is lost"})


def lost_after(profile: Profile, gpu: int, calls: int) -> Profile:
    """It falls off after so many calls of each process."""
    return edited(profile, gpu, lost_after=calls)


def used(profile: Profile, gpu: int, pid: int, size: int = 12 << 30) -> Profile:
    """Somebody's process computes on it."""
    return edited(profile, gpu, nvmlDeviceGetComputeRunningProcesses=[{"pid": pid, "bytes": size}])


def crowded(profile: Profile, gpu: int, size: int = 12 << 30) -> Profile:
    """Its memory is in use, by nobody that can be seen."""
    return edited(profile, gpu, nvmlDeviceGetMemoryInfo_v2=_with_used(profile, gpu, size))


def _with_used(profile: Profile, gpu: int, size: int) -> dict[str, int]:
    memory = {**profile.get("gpu", {}), **profile["gpus"][gpu]}["nvmlDeviceGetMemoryInfo_v2"]
    return {**memory, "used": size, "free": memory["free"] - size}


def mig(profile: Profile, gpu: int) -> Profile:
    """It is cut into instances, as MIG does; NVLink and remapped rows are then not told."""
    uuid = f"MIG-44444444-0000-5000-8000-{gpu:012x}"
    hidden = {f"nvmlDeviceGetNvLinkState[{link}]": None for link in range(18)}
    return edited(
        profile,
        gpu,
        nvmlDeviceGetMigMode=[1, 1],
        nvmlDeviceGetMaxMigDeviceCount=7,
        nvmlDeviceGetRemappedRows=None,
        **{"nvmlDeviceGetUUID[MIG]": uuid, **hidden},
    )


def build(folder: Path, missing: Iterable[str] = ()) -> Path:
    """Compile both libraries into `folder`; symbols in `missing` are not exported, as an older driver has it."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise RuntimeError("the NVML double needs a C compiler: apt-get install gcc libc6-dev")
    folder.mkdir(parents=True, exist_ok=True)
    hidden = folder / "symbols"
    names = " ".join(f"{name};" for name in ["nothing_by_this_name", *missing])
    hidden.write_text(f"{{ local: {names} }};")
    for source, library in (("nvml.c", "libnvidia-ml.so.1"), ("cuda.c", "libcuda.so.1")):
        command = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", str(HERE / source)]
        script = [f"-Wl,--version-script={hidden}"] if source == "nvml.c" else []
        subprocess.run([*command, *script, "-o", str(folder / library), "-lpthread"], check=True)
    return folder


class Machine:
    """A profile in force: what a program started with `environment` finds as its driver."""

    def __init__(self, folder: Path, libraries: Path, profile: Profile) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / "profile.json"
        self.profile = profile
        self.change(profile)
        self.environment = {
            "LD_LIBRARY_PATH": os.pathsep.join(p for p in [str(libraries), os.environ.get("LD_LIBRARY_PATH")] if p),
            "NVML_DOUBLE_PROFILE": str(self._path),
        }

    def change(self, profile: Profile) -> None:
        """From the next call on the machine is another."""
        self.profile = profile
        beside = self._path.with_suffix(".new")
        beside.write_text(json.dumps(profile, ensure_ascii=False), encoding="utf-8")  # the double reads no \\u escapes
        beside.replace(self._path)
