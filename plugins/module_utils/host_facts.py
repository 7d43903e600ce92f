# Copyright: the auditor's authors
# What kind of machine this is, as far as installing anything on it goes.
"""Facts for the plans of driver, DCGM and torch: read without root, without changing anything.

Standard library only, Python >= 3.8. `root` and `run` are arguments so that a test can show another machine.
Everything that cannot be read is None or empty: absent is never "no".
"""

import os
import platform
import re
import shutil
import subprocess
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

Run = Callable[[Sequence[str]], Tuple[int, str]]

_PROVIDER_SIGNS = (
    ("/etc/dgx-release", "DGX OS"),
    ("/run/nvidia/driver", "GPU Operator"),
    ("/opt/azurehpc", "Azure HPC image"),
    ("/etc/aws-dlami", "AWS deep learning image"),
    ("/opt/aws/dlami", "AWS deep learning image"),
    ("/etc/cos-package-info.json", "Container-Optimized OS"),
)
_RUNFILE_SIGNS = ("/usr/bin/nvidia-uninstall", "/usr/bin/nvidia-installer")
_HELD = re.compile(r"nvidia|cuda-drivers|datacenter-gpu-manager")
_GRID = "/etc/nvidia/gridd.conf"  # licence settings of a vGPU guest's driver
# Daemons of the driver itself keep the devices open without using them.
_DAEMONS = ("nvidia-persistenced", "nv-hostengine", "nv-fabricmanager", "nvidia-gridd", "dcgm-exporter")
_NVSWITCH = ("0x1ac0", "0x1ac2", "0x1af1", "0x22a0", "0x22a1", "0x22a3", "0x22a4")


def run_program(argv: Sequence[str], errors: bool = False, seconds: float = 10.0) -> Tuple[int, str]:
    """Exit status and output of a program (`errors`: with what it says on stderr); 127 where it is not there."""
    path = shutil.which(argv[0], path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin:/usr/bin:/bin")
    if path is None:
        return 127, ""
    try:
        done = subprocess.run(
            [path, *argv[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if errors else subprocess.DEVNULL,
            timeout=seconds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return 126, ""
    return done.returncode, done.stdout.decode("utf-8", "replace")


def gather(root: str = "/", run: Run = run_program) -> Dict[str, Any]:
    """All facts of one machine as plain data."""
    release = _os_release(root)
    devices, switches = _pci(root)
    kernel = _read(root, "/proc/sys/kernel/osrelease") or platform.release()
    manager = "apt" if _exists(root, "/usr/bin/apt-get") else "dnf" if _exists(root, "/usr/bin/dnf") else None
    installed = _installed(run, manager)
    return {
        "os": release.get("PRETTY_NAME"),
        "os_id": release.get("ID"),
        "os_version": release.get("VERSION_ID"),
        "package_manager": manager,
        "architecture": platform.machine(),
        "kernel": kernel,
        "privilege": _privilege(run),
        "container": _container(root),
        "nvidia_devices": devices,
        "nvswitches": switches,
        "driver_version": _read(root, "/sys/module/nvidia/version") or _proc_version(root),
        "driver_installed": _first(
            installed, r"(nvidia-(driver(?!-pinning)|headless|kernel|dkms|open).*|kmod-nvidia.*|libnvidia-compute.*)"
        ),
        "driver_flavour": _flavour(root),
        "virtualization_mode": "vgpu" if _exists(root, _GRID) or _running(root, "nvidia-gridd") else None,
        "gpu_users": _gpu_users(root),
        "held": _held(root, run, manager),
        "provider_managed": [word for path, word in _PROVIDER_SIGNS if _exists(root, path)],
        "runfile_installer": next((path for path in _RUNFILE_SIGNS if _exists(root, path)), None),
        "secure_boot": _secure_boot(root),
        "signed_modules": _signed_modules(run, manager, kernel),
        "kernel_headers": _exists(root, "/lib/modules/%s/build" % kernel),
        "nouveau": _exists(root, "/sys/module/nouveau"),
        "fabric_manager": _first(installed, r"nvidia-fabric-?manager.*"),
        "dcgm": _first(installed, r"datacenter-gpu-manager.*"),
        "dcgm_running": _running(root, "nv-hostengine"),
        "persistenced": _running(root, "nvidia-persistenced"),
        "disk_free_bytes": _free(root),
        "reboot_required": _exists(root, "/var/run/reboot-required") or _exists(root, "/run/reboot-required"),
        "systemd": _exists(root, "/run/systemd/system"),
    }


def _path(root: str, path: str) -> str:
    return os.path.join(root, path.lstrip("/"))


def _exists(root: str, path: str) -> bool:
    return os.path.lexists(_path(root, path))


def _read(root: str, path: str) -> Optional[str]:
    try:
        with open(_path(root, path), encoding="utf-8", errors="replace") as file:
            return file.read(65536).strip()
    except OSError:
        return None


def _os_release(root: str) -> Dict[str, str]:
    text = _read(root, "/etc/os-release") or _read(root, "/usr/lib/os-release") or ""
    return {key: value.strip("\"'") for key, value in re.findall(r"^([A-Z_]+)=(.*)$", text, re.MULTILINE)}


def _pci(root: str) -> Tuple[List[str], int]:
    devices, switches = [], 0
    folder = _path(root, "/sys/bus/pci/devices")
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return [], 0
    for name in names:
        base = "/sys/bus/pci/devices/" + name
        if _read(root, base + "/vendor") != "0x10de":
            continue
        kind, device = _read(root, base + "/class") or "", _read(root, base + "/device") or ""
        if kind.startswith(("0x0300", "0x0302")):
            devices.append("10de:" + device[2:])
        elif device in _NVSWITCH or kind.startswith("0x0680"):
            switches += 1
    return devices, switches


def _privilege(run: Run) -> str:
    if os.geteuid() == 0:
        return "root"
    return "sudo" if run(["sudo", "-n", "true"])[0] == 0 else "none"


def _container(root: str) -> str:
    if _exists(root, "/.dockerenv"):
        return "docker"
    if _exists(root, "/run/.containerenv"):
        return "podman"
    environment = _read(root, "/proc/1/environ") or ""
    match = re.search(r"(?:^|\0)container=([a-z-]+)", environment)
    if match:
        return match[1]
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return "kubernetes"
    cgroup = _read(root, "/proc/1/cgroup") or ""
    for word in ("kubepods", "docker", "lxc"):
        if word in cgroup:
            return word
    return "none"


def _proc_version(root: str) -> Optional[str]:
    match = re.search(r"\b(\d{3}\.\d+(?:\.\d+)?)\b", _read(root, "/proc/driver/nvidia/version") or "")
    return match[1] if match else None


def _flavour(root: str) -> Optional[str]:
    text = _read(root, "/proc/driver/nvidia/version")
    return None if text is None else "open" if "Open Kernel Module" in text else "proprietary"


def _installed(run: Run, manager: Optional[str]) -> Dict[str, str]:
    """NVIDIA packages by name with their version."""
    if manager == "apt":
        code, text = run(
            ["dpkg-query", "-W", "-f=${db:Status-Abbrev} ${Package} ${Version}\\n", "*nvidia*", "*gpu-manager*"]
        )
        rows = [line.split() for line in text.splitlines() if line.startswith("ii")]
        return {row[1]: row[2] for row in rows if len(row) == 3}
    if manager == "dnf":
        code, text = run(["rpm", "-qa", "--qf", "%{NAME} %{VERSION}-%{RELEASE}\\n", "*nvidia*", "*gpu-manager*"])
        rows = [line.split() for line in text.splitlines()]
        return {row[0]: row[1] for row in rows if len(row) == 2}
    return {}


def _first(installed: Dict[str, str], pattern: str) -> Optional[str]:
    for name in sorted(installed):
        if re.fullmatch(pattern, name):
            return "%s %s" % (name, installed[name])
    return None


def _held(root: str, run: Run, manager: Optional[str]) -> List[str]:
    """Packages of this stack that somebody fixed: apt's holds; dnf's version locks and excludes."""
    if manager == "apt":
        words = run(["apt-mark", "showhold"])[1].split()
    elif manager == "dnf":  # the plugin's own file: `dnf versionlock list` takes seconds and needs the plugin
        locks = (_read(root, "/etc/dnf/plugins/versionlock.list") or "").splitlines()
        words = [word for line in locks for word in line.split("#")[0].split()]
        excludes = re.findall(r"^exclude(?:pkgs)?\s*=(.*)$", _read(root, "/etc/dnf/dnf.conf") or "", re.MULTILINE)
        words += [word for line in excludes for word in re.split(r"[\s,]+", line) if word]
    else:
        return []
    return [word for word in words if _HELD.search(word)]


def _signed_modules(run: Run, manager: Optional[str], kernel: str) -> List[str]:
    """Ubuntu's ready-made modules for the running kernel, signed with a key that Secure Boot knows."""
    if manager != "apt":
        return []
    names = run(["apt-cache", "pkgnames", "linux-modules-nvidia-"])[1].split()
    return sorted(name for name in names if name.endswith("-" + kernel))


def _secure_boot(root: str) -> Optional[bool]:
    folder = _path(root, "/sys/firmware/efi/efivars")
    try:
        names = [name for name in os.listdir(folder) if name.startswith("SecureBoot-")]
        with open(os.path.join(folder, names[0]), "rb") as file:
            return file.read(5)[-1:] == b"\x01"
    except (OSError, IndexError):
        return False if not _exists(root, "/sys/firmware/efi") else None


def _running(root: str, name: str) -> bool:
    """Whether a process of this name runs; `comm` is read because `cmdline` of a stuck one may hang."""
    folder = _path(root, "/proc")
    try:
        pids = [entry for entry in os.listdir(folder) if entry.isdigit()]
    except OSError:
        return False
    return any(_read(root, "/proc/%s/comm" % pid) == name[:15] for pid in pids)


def _gpu_users(root: str) -> List[str]:
    """Processes with a GPU open, as far as this user may look: all of them as root. Without a driver there are none."""
    if not _exists(root, "/sys/module/nvidia"):
        return []
    found = []
    for pid in filter(str.isdigit, os.listdir(_path(root, "/proc"))):
        folder = _path(root, "/proc/%s/fd" % pid)
        try:
            opened = {os.readlink(os.path.join(folder, name)) for name in os.listdir(folder)}
        except OSError:
            continue  # it ended, or is somebody else's
        name = _read(root, "/proc/%s/comm" % pid) or "?"
        if any(re.match(r"/dev/nvidia\d", path) for path in opened) and name not in [one[:15] for one in _DAEMONS]:
            found.append("%s %s" % (pid, name))
    return sorted(found)


def _free(root: str) -> Optional[int]:
    try:
        disk = os.statvfs(root)
    except OSError:
        return None
    return disk.f_bavail * disk.f_frsize
