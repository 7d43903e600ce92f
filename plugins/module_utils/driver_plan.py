# Copyright: the auditor's authors
# Which driver a server without one would get, or why it gets none. Pure: facts in, plan out.
"""Decides what the role nvidia_driver does on one server.

Standard library only, Python >= 3.8: it is shipped to the server inside an Ansible module. The facts are those of
`host_facts.gather`. Tables: docs/rented-machines.md says where each line comes from (driver installation guide of
branches 580, 610 and 620; the supported-drivers page).
"""

import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

DEFAULT_BRANCH = 580  # LTS until June 2028, the last one for Volta and the first for CUDA 13

# PCI device ids by chip generation: GV100 and TU10x/TU11x, GA100, GA10x, AD10x, GH100, GB10x/GB20x.
_GENERATIONS = (
    (0x1340, 0x17FF, "maxwell"),
    (0x1B00, 0x1D7F, "pascal"),
    (0x15F0, 0x15FF, "pascal"),
    (0x1D80, 0x1DFF, "volta"),
    (0x1E00, 0x1FFF, "turing"),
    (0x2080, 0x21FF, "turing_or_ampere"),
    (0x2200, 0x22FF, "ampere"),
    (0x2300, 0x23FF, "hopper"),
    (0x2400, 0x25FF, "ampere"),
    (0x2600, 0x28FF, "ada"),
    (0x2900, 0x2FFF, "blackwell"),
    (0x3180, 0x31FF, "blackwell"),
)
_OPEN_ONLY = ("blackwell",)
_PROPRIETARY_ONLY = ("maxwell", "pascal", "volta")


class Plan(NamedTuple):
    """What would be done: `install`, `keep` (nothing needed) or `refuse` (needed, but not by us: `reason`).

    `brings` is known after the simulation only: every package that would be new here.
    """

    action: str
    reason: str
    branch: Optional[int] = None
    flavour: Optional[str] = None
    packages: Tuple[str, ...] = ()
    first: Tuple[str, ...] = ()
    family: Optional[str] = None
    module_stream: Optional[str] = None
    brings: Tuple[str, ...] = ()

    def as_dict(self) -> Dict[str, Any]:
        """The plan as plain data for Ansible."""
        out = self._asdict()
        return {key: list(value) if isinstance(value, tuple) else value for key, value in out.items()}


def generation(device: str) -> Optional[str]:
    """The chip generation of a PCI device id such as `10de:2335`, None where it is not known."""
    match = re.fullmatch(r"(?:0x)?10de:(?:0x)?([0-9a-f]{4})", device.lower())
    if not match:
        return None
    number = int(match[1], 16)
    for low, high, name in _GENERATIONS:
        if low <= number <= high:
            if name == "turing_or_ampere":  # GA100 sits between the Turing ranges
                return "ampere" if 0x2080 <= number <= 0x20FF else "turing"
            return name
    return None


def plan(facts: Mapping[str, Any], state: str = "missing", branch: int = 0, flavour: str = "auto") -> Plan:
    """What the role would do on a server with these facts.

    Args:
        facts: `host_facts.gather()`.
        state: `missing` installs only where there is none, `manage` also changes one, `never` does nothing.
        branch: the wished branch, 0 for the default of the GPU's generation.
        flavour: `open`, `proprietary` or `auto`.
    """
    if state == "never":
        return Plan("keep", "audit_driver is never")
    devices: List[str] = list(facts.get("nvidia_devices") or ())
    if not devices:
        return Plan("keep", "no NVIDIA GPU on the bus")
    present = facts.get("driver_version") or facts.get("driver_installed")
    if present and state == "missing":
        return Plan("keep", f"driver {present} is there and is left as it is")
    refusal = _not_ours(facts)
    if refusal:
        return Plan("refuse", refusal)
    generations = {generation(device) for device in devices}
    if None in generations:
        unknown = sorted(device for device in devices if generation(device) is None)
        if not branch:
            return Plan("refuse", f"the GPU {unknown[0]} is in no table; nvidia_driver_branch names one all the same")
        generations.discard(None)
    names = {str(name) for name in generations}
    chosen = _flavour(names, flavour)
    if chosen is None:
        return Plan("refuse", "no kernel module flavour drives {} together".format(" and ".join(sorted(names))))
    wanted = branch or DEFAULT_BRANCH
    if names & set(_PROPRIETARY_ONLY) and wanted > 580:
        return Plan("refuse", "branch %d no longer drives %s; 580 does" % (wanted, ", ".join(sorted(names))))
    if chosen == "proprietary" and wanted >= 620:
        return Plan("refuse", f"branch {wanted} has no proprietary kernel module")
    if "blackwell" in names and wanted < 570:
        return Plan("refuse", f"branch {wanted} is older than Blackwell, which needs 570 or newer")
    return _packages(facts, wanted, chosen)


def _not_ours(facts: Mapping[str, Any]) -> Optional[str]:
    """Why a renter must not touch this server's driver; the order is that of docs/rented-machines.md."""
    if facts.get("container") not in (None, "none"):
        return "a container ({}): the driver belongs to its host".format(facts["container"])
    if facts.get("virtualization_mode") == "vgpu":
        return "a vGPU guest: its licensed driver must match the host's"
    for sign in facts.get("provider_managed") or ():
        return f"the driver is managed by the provider ({sign})"
    if facts.get("held"):
        return "held packages: {}".format(", ".join(facts["held"][:4]))
    if facts.get("runfile_installer"):
        return "a driver from the .run installer leaves traces ({}): two installers do not mix".format(
            facts["runfile_installer"]
        )
    if facts.get("gpu_users"):
        return "processes use the GPUs: {}".format(", ".join(map(str, facts["gpu_users"][:4])))
    if facts.get("privilege") not in ("root", "sudo"):
        return "needs root: log in as root or with sudo, or ask the provider for the driver"
    return None


def _flavour(names: "set[str]", wish: str) -> Optional[str]:
    must_open, must_closed = names & set(_OPEN_ONLY), names & set(_PROPRIETARY_ONLY)
    if must_open and must_closed:
        return None
    if must_open:
        return None if wish == "proprietary" else "open"
    if must_closed:
        return None if wish == "open" else "proprietary"
    return "proprietary" if wish == "proprietary" else "open"


def _packages(facts: Mapping[str, Any], branch: int, flavour: str) -> Plan:
    family = "{}{}".format(facts.get("os_id"), str(facts.get("os_version", "")).split(".")[0])
    kernel = str(facts.get("kernel", ""))
    switched = bool(facts.get("nvswitches"))
    secure_boot = bool(facts.get("secure_boot"))
    if family in ("ubuntu22", "ubuntu24"):
        suffix = "-server-open" if flavour == "open" else "-server"
        prebuilt = f"linux-modules-nvidia-{branch}{suffix}-{kernel}"
        signed = prebuilt in (facts.get("signed_modules") or ())
        if secure_boot and not signed:
            return _secure_boot()
        built_here = [f"nvidia-dkms-{branch}{suffix}", f"linux-headers-{kernel}"]
        packages = ([prebuilt] if signed else built_here) + [
            f"nvidia-kernel-common-{branch}-server",
            f"libnvidia-compute-{branch}-server",
            f"nvidia-compute-utils-{branch}-server",
            f"nvidia-utils-{branch}-server",
        ]
        if switched:
            packages.append(f"nvidia-fabricmanager-{branch}")
        return _install("apt", branch, flavour, packages)
    if secure_boot:
        return _secure_boot()
    if family == "debian12":
        kernel_package = "nvidia-kernel-open-dkms" if flavour == "open" else "nvidia-kernel-dkms"
        packages = [f"linux-headers-{kernel}", kernel_package, "nvidia-driver-cuda"]
        if switched:
            packages.append("nvidia-fabricmanager")
        return _install("apt", branch, flavour, packages, first=(f"nvidia-driver-pinning-{branch}",))
    if facts.get("os_id") in ("rhel", "rocky", "almalinux", "centos") and family.endswith("9"):
        kmod = "kmod-nvidia-open-dkms" if flavour == "open" else "kmod-nvidia-latest-dkms"
        packages = [f"kernel-devel-{kernel}", kmod, "nvidia-driver-cuda"]
        if switched:
            packages.append("nvidia-fabric*manager")  # the repository has spelt it with and without a hyphen
        stream = f"{branch}-open" if flavour == "open" else f"{branch}-dkms"
        return _install("dnf", branch, flavour, packages, stream=stream)
    return Plan("refuse", "%s: audit only, no driver is installed on this distribution" % (facts.get("os") or family))


def _install(
    family: str,
    branch: int,
    flavour: str,
    packages: List[str],
    first: Tuple[str, ...] = (),
    stream: Optional[str] = None,
) -> Plan:
    return Plan(
        "install",
        "no driver is there: branch %d, %s kernel module" % (branch, flavour),
        branch,
        flavour,
        tuple(packages),
        tuple(first),
        family,
        stream,
    )


def _secure_boot() -> Plan:
    return Plan(
        "refuse",
        "Secure Boot is on and no signed module exists for this kernel: enrol a key at the console "
        "(mokutil --import), switch Secure Boot off, or ask the provider for an image with the driver",
    )
