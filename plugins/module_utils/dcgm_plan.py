# Copyright: the auditor's authors
# Which DCGM a server without one would get, or why it gets none. Pure: facts in, plan out.
"""Decides what the role dcgm does on one server (packages of DCGM 4; docs/rented-machines.md names the sources).

The proprietary parts come only as Recommends and apt forgets them on an upgrade, so all four packages are named.
"""

import re
from typing import Any, Mapping, Optional, Sequence

from ansible.module_utils.driver_plan import Plan, generation


def plan(facts: Mapping[str, Any], state: str = "missing") -> Plan:
    """What the role would do; `facts` are those of `host_facts.gather`, state is missing, never or manage."""
    if state == "never":
        return Plan("keep", "audit_dcgm is never")
    if not facts.get("nvidia_devices"):
        return Plan("keep", "no NVIDIA GPU on the bus")
    if facts.get("dcgm_running"):
        return Plan("keep", "a host engine runs and is used as it is")
    if facts.get("dcgm") and state == "missing":
        return Plan("keep", "%s is there and is left as it is" % facts["dcgm"])
    driver = _major(facts.get("driver_version"))
    if driver is None:
        return Plan("refuse", "no driver is loaded, so the CUDA major that DCGM must fit is not known")
    if facts.get("container") not in (None, "none"):
        return Plan("refuse", "a container (%s): DCGM belongs to its host" % facts["container"])
    if facts.get("privilege") not in ("root", "sudo"):
        return Plan("refuse", "needs root")
    family = "%s%s" % (facts.get("os_id"), str(facts.get("os_version", "")).split(".")[0])
    manager = facts.get("package_manager")
    if family not in _FAMILIES or manager not in ("apt", "dnf"):
        return Plan("refuse", "%s: DCGM 4 has no packages for it" % (facts.get("os") or family))
    old = re.match(r"datacenter-gpu-manager (?:\d+:)?([0-9.]+)", str(facts.get("dcgm") or ""))
    if old:
        return Plan("refuse", "DCGM %s conflicts with DCGM 4; remove it first" % old[1])
    cuda = _cuda_major(driver, facts.get("nvidia_devices") or ())
    core = "datacenter-gpu-manager-4"
    packages = (
        core + "-core",
        "%s-cuda%d" % (core, cuda),
        core + "-proprietary",
        "%s-proprietary-cuda%d" % (core, cuda),
    )
    return Plan("install", "no DCGM is there: version 4 for CUDA %d" % cuda, packages=packages, family=manager)


_FAMILIES = ("ubuntu22", "ubuntu24", "debian12", "rhel8", "rhel9", "rocky8", "rocky9", "almalinux8", "almalinux9")


def _major(version: Optional[str]) -> Optional[int]:
    match = re.match(r"(\d{3})\.", version or "")
    return int(match[1]) if match else None


def _cuda_major(driver: int, devices: Sequence[str]) -> int:
    """CUDA 13 from driver 580 on; Volta has left CUDA 13."""
    if any(generation(device) == "volta" for device in devices):
        return 12
    return 13 if driver >= 580 else 12
