"""What each Xid means, what the provider must do, and how bad it is.

Meanings and actions: NVIDIA's Xid catalogue. Severities: docs/thresholds.md, health; where NVIDIA
names no action (162 to 172) they are ours and say so there.
"""

from __future__ import annotations

import msgspec

from auditor.finding import Severity
from auditor.judge.texts import N_


class Xid(msgspec.Struct, frozen=True):
    """`repeated` is the severity from the second event on; None = the same."""

    meaning: str
    action: str
    severity: Severity
    repeated: Severity | None = None


NOTHING, RESTART, RESET = N_("nothing to be done"), N_("restart the application"), N_("reset the GPU")
REPLACE, REBOOT = N_("replace the GPU"), N_("restart the server, replace the GPU when it returns")
SUPPORT, UPDATE = N_("look it up with NVIDIA's support"), N_("update the software")
_OWN = Xid(N_("error of an application"), RESTART, "info")
_ENGINE = Xid(N_("error of an engine beside the compute units"), RESTART, "advice")
_HUNG = Xid(N_("the GPU or its firmware did not answer in time"), RESET, "review", "reject")
_NVLINK5 = Xid(N_("NVLink 5 error"), N_("repair the NVLink, reset the GPU"), "review")
_DEAD = Xid(N_("an error the GPU cannot recover from"), RESET, "reject")
_SMOOTHING = Xid(N_("power smoothing was engaged, disengaged or runs low"), NOTHING, "info")
_SECURE = Xid(N_("NVLink secure-mode event"), NOTHING, "advice")

UNKNOWN = Xid(N_("an Xid that is not in the catalogue"), SUPPORT, "advice")
OWN = (11, 13, 31, 32, 69)
"""Errors that an application makes: only when one GPU alone has them again and again do they speak of the GPU."""
NVLINK5 = range(144, 151)
RECOVERY = 154
OFF_THE_BUS = 79

XIDS: dict[int, Xid] = {
    **dict.fromkeys(OWN, _OWN),
    **dict.fromkeys((68, 80, 126, 127, 139), _ENGINE),
    43: Xid(N_("the GPU stopped processing for an application"), NOTHING, "info"),
    45: Xid(N_("clean-up after an earlier error"), N_("look at the Xid before it"), "advice"),
    **dict.fromkeys((46, 62, 109), _HUNG),
    48: Xid(N_("double-bit ECC error"), N_("drain and reset the GPU"), "review"),
    54: Xid(N_("auxiliary power is not connected"), N_("check power cables and seat"), "reject"),
    63: Xid(N_("a memory row is remapped at the next reset"), RESET, "review"),
    64: Xid(N_("a memory row could not be remapped"), REPLACE, "reject"),
    74: Xid(N_("NVLink error"), N_("repair the NVLink, reset the GPU"), "review"),
    78: Xid(N_("a vGPU did not start"), UPDATE, "advice"),
    OFF_THE_BUS: Xid(N_("the GPU has fallen off the bus"), REBOOT, "reject"),
    92: Xid(N_("high rate of corrected memory errors"), SUPPORT, "advice"),
    93: Xid(N_("the GPU's own storage (InfoROM) wears out"), SUPPORT, "advice"),
    94: Xid(N_("contained memory error"), N_("restart the application, then reset the GPU"), "review"),
    95: Xid(N_("uncontained memory error"), RESET, "reject"),
    **dict.fromkeys((110, 119, 120), _HUNG),
    121: Xid(N_("error of the link between CPU and GPU (C2C)"), SUPPORT, "advice"),
    136: Xid(N_("NVLink training failed"), N_("reset the GPU, check the signal path"), "review"),
    137: Xid(N_("NVLink privilege error, often the peer's fault"), N_("look at the peer GPU"), "advice"),
    **dict.fromkeys((140, 143, 158), _DEAD),
    141: Xid(N_("error in CUDA's fast path"), NOTHING, "info"),
    **dict.fromkeys(NVLINK5, _NVLINK5),
    151: Xid(N_("key rotation error (confidential computing)"), N_("restart the virtual machine"), "review"),
    RECOVERY: Xid(N_("the GPU asks for a recovery action"), N_("do what it asks for"), "review"),
    155: Xid(N_("NVLink error found by software"), RESET, "review"),
    156: Xid(N_("memory was retired"), RESET, "review"),
    157: Xid(N_("memory could not be retired"), REPLACE, "reject"),
    159: Xid(N_("interconnect error of a Grace system"), SUPPORT, "advice"),
    160: Xid(N_("a memory channel was retired"), RESET, "review"),
    161: Xid(N_("a memory channel could not be retired"), REPLACE, "reject"),
    **dict.fromkeys((162, 163, 164), _SMOOTHING),
    165: Xid(N_("the power-smoothing circuit is worn out"), SUPPORT, "advice"),
    **dict.fromkeys((166, 170), _SECURE),
    167: Xid(N_("fatal PCIe time-out"), REBOOT, "reject"),
    168: Xid(N_("errors in protected memory: less capacity"), REPLACE, "reject"),
    169: Xid(N_("a micro-controller of the GPU halted"), RESET, "review"),
    171: Xid(N_("uncorrected error in GPU memory"), N_("drain and reset the GPU"), "review"),
    172: Xid(N_("uncorrected error in the GPU's caches"), N_("drain and reset the GPU"), "review"),
}

ACTIONS: dict[str, Severity] = {
    "gpu_reset": "review",
    "drain_p2p": "review",
    "drain_and_reset": "review",
    "recover_imex": "review",
    "node_reboot": "reject",
    "bus_reset": "reject",
    "system_reboot": "reject",
}
"""Recovery actions by the words of docs/method.md; `none` is none. A GPU that needs the whole server restarted
cannot be used as it was delivered."""


def of(number: int) -> Xid:
    """The catalogue's entry; `UNKNOWN` for a number that is not in it."""
    return XIDS.get(number, UNKNOWN)
