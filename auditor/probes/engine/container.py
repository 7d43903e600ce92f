"""In what this process is held: container, sandbox, a slice made by software; and which service runs.

Files and environment only. The environment of the machine's first process is read where it may be: the auditor's own
is nearly empty.
"""

from __future__ import annotations

import os
import re
from typing import Callable, Dict, List, Optional

from . import tree

# include/linux/proc_ns.h: the namespaces that the kernel starts with
_FIRST_NAMESPACES = {"ipc": 4026531839, "uts": 4026531838, "pid": 4026531836, "cgroup": 4026531835}
_SLICE_VARIABLES = re.compile(
    r"CUDA_DEVICE_MEMORY_LIMIT(_\d+)?|CUDA_DEVICE_SM_LIMIT|CUDA_DEVICE_MEMORY_SHARED_CACHE|"
    r"GPU_CORE_UTILIZATION_POLICY|ALIYUN_COM_GPU_.*|RUNAI_.*"
)
_SLICE_LIBRARIES = re.compile(r"libvgpu\.so|libcgpu|libvcuda|libcuda_hook|libgemhook|librunai", re.I)
_SLICE_FILES = ("tmp/cudevshr.cache", "tmp/vgpulock", "usr/local/vgpu", "dev/cgpu_km", "etc/vcuda")


class Signs:
    """What all questions here look at."""

    def __init__(self, root: str, environment: Dict[str, str]) -> None:
        self.root = root
        self.environment = {**_environment_of_the_first(root), **environment}
        self.mounts = tree.text(root, "proc/self/mountinfo") or ""
        self.cgroups = "\n".join(tree.text(root, "proc/%s/cgroup" % who) or "" for who in ("1", "self"))
        self.version = tree.text(root, "proc/version") or ""

    def has(self, path: str) -> bool:
        """Whether a file or folder is there."""
        return os.path.exists(os.path.join(self.root, path))


def _environment_of_the_first(root: str) -> Dict[str, str]:
    raw = tree.data(root, "proc/1/environ") or b""
    pairs = (os.fsdecode(word).partition("=") for word in raw.split(b"\0"))
    return {name: value for name, _, value in pairs if name}


def container(signs: Signs) -> str:
    """docker, podman, lxc, kubernetes, other, none.

    A machine may be booted from a container's image, with that image's marks in its file system: those count only
    where our namespaces are not the kernel's first ones.
    """
    named = (signs.environment.get("container") or tree.text(signs.root, "run/systemd/container") or "").lower()
    inside = _inside(signs.root)
    if (
        "KUBERNETES_SERVICE_HOST" in signs.environment
        or signs.has("var/run/secrets/kubernetes.io")
        or "kubepods" in signs.cgroups
    ):
        return "kubernetes"
    if named == "podman" or "libpod" in signs.cgroups or inside and signs.has("run/.containerenv"):
        return "podman"
    if named == "docker" or re.search(r"/docker[-/]", signs.cgroups) or inside and signs.has(".dockerenv"):
        return "docker"
    if named.startswith("lxc") or re.search(r"/lxc[./]", signs.cgroups):
        return "lxc"
    return "other" if named or inside else "none"


def _inside(root: str) -> bool:
    """Whether any of our namespaces is not the first; a kernel that does not say is taken at its other words."""
    return any(_is_first(root, name) is False for name in _FIRST_NAMESPACES)


def first_pid_namespace(root: str) -> bool:
    """Whether our process numbers are the kernel's own, those that the GPU driver tells."""
    return _is_first(root, "pid") is True


def _is_first(root: str, name: str) -> Optional[bool]:
    try:
        link = os.readlink(os.path.join(root, "proc/self/ns", name))
    except OSError:
        return None
    return link == "%s:[%d]" % (name, _FIRST_NAMESPACES[name])


def sandbox(signs: Signs) -> str:
    """gvisor, kata, firecracker, wsl2, none."""
    if "microsoft-standard-WSL2" in signs.version or signs.has("dev/dxg"):
        return "wsl2"
    if re.search(r"Linux version 4\.4\.0 .*2016", signs.version) or "gvisor" in signs.version.lower():
        return "gvisor"
    if "kataShared" in signs.mounts:
        return "kata"
    acpi = tree.data(signs.root, "sys/firmware/acpi/tables/FACP") or b""
    cmdline = tree.text(signs.root, "proc/cmdline") or ""
    if acpi[10:16] == b"FIRECK" or re.search(r"\bpci=off\b.*virtio_mmio\.device=", cmdline):
        return "firecracker"
    return "none"


def software_slice(signs: Signs) -> str:
    """The signs of HAMi, cGPU, run:ai and kin, joined; `none`."""
    found: List[str] = sorted(name for name in signs.environment if _SLICE_VARIABLES.fullmatch(name))
    libraries = (tree.text(signs.root, "proc/self/maps") or "") + "\n" + preload(signs)
    found += sorted(set(_SLICE_LIBRARIES.findall(libraries)))
    found += ["/" + path for path in _SLICE_FILES if signs.has(path)]
    return ", ".join(found) or "none"


def preload(signs: Signs) -> str:
    """What is loaded into every program before its own libraries; `none`."""
    lines = [signs.environment.get("LD_PRELOAD", ""), tree.text(signs.root, "etc/ld.so.preload") or ""]
    return " ".join(" ".join(lines).split()) or "none"


def service(root: str, unit: str, process: str, ask: Callable[[str], str]) -> str:
    """active, inactive, failed, absent, unknown. `ask` answers a unit's ActiveState; only systemd knows a failure."""
    for path in tree.found(root, "proc/[0-9]*/comm"):
        if tree.text("", path) == process[:15]:
            return "active"
    if not os.path.isdir(os.path.join(root, "run/systemd/system")):
        return "unknown"
    places = ("etc/systemd/system", "run/systemd/system", "usr/lib/systemd/system", "lib/systemd/system")
    if not any(os.path.exists(os.path.join(root, place, unit + ".service")) for place in places):
        return "absent"
    state = ask(unit)
    return state if state in ("active", "failed") else "inactive" if state else "unknown"
