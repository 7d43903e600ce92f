"""The driver itself: its version against order, library and CUDA; why CUDA does not start; what waits for a reset."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from auditor.catalog.identify import NAMELESS
from auditor.finding import Finding, Severity
from auditor.judge.case import Case
from auditor.judge.rule import rule
from auditor.judge.texts import N_, Text
from auditor.records import ProbeRow


@rule
def driver_ordered(case: Case) -> Iterator[Finding]:
    """Another driver branch than ordered."""
    if case.order is None or case.order.driver is None:
        return
    versions = list(case.view.all("server_facts_driver_version"))
    if versions and not any(str(r.value).startswith(case.order.driver) for r in versions):
        yield case.finding(
            "driver-differs",
            "misallocated",
            "advice",
            "server",
            "order",
            "the order",
            {"version": str(versions[0].value), "ordered": case.order.driver},
            versions,
        )


@rule
def driver_mismatch(case: Case) -> Iterator[Finding]:
    """Library and kernel module of different versions: an upgrade without a reboot."""
    versions = list(case.view.all("server_facts_driver_version"))
    if len({str(r.value).strip() for r in versions}) > 1:
        yield case.finding(
            "driver-mismatch",
            "degraded",
            "review",
            "server",
            "contradiction",
            "NVML reference: error 18, library and kernel module differ",
            {"versions": "; ".join(f"{r.source}: {r.value}" for r in versions)},
            versions,
        )


@rule
def driver_too_old(case: Case) -> Iterator[Finding]:
    """A driver that has no name for the card, or is of an older CUDA generation than the torch that was found."""
    version = case.view.text("server_facts_driver_version")
    for gpu in case.gpus:
        unnamed = [r for r in case.view.all("gpu_identity_name", gpu) if str(r.value).strip().upper() in NAMELESS]
        if unnamed:
            yield case.finding(
                "driver-too-old",
                "degraded",
                "advice",
                gpu,
                "evidence",
                "the driver's own name table",
                {"version": version},
                (*unnamed, *case.view.all("gpu_identity_pci_device", gpu)),
            )
    has, wants = case.view.one("server_facts_cuda_version"), case.view.one("server_facts_torch_cuda_version")
    generations = [_generation(str(r.value)) for r in (has, wants) if r is not None]
    if has is not None and wants is not None and None not in generations and generations[0] < generations[1]:  # type: ignore[operator]  # None was just ruled out
        yield case.finding(
            "driver-too-old",
            "degraded",
            "advice",
            "server",
            "contradiction",
            "CUDA compatibility guide: minor versions of one generation work together, an older generation does not",
            {"version": version, "has": str(has.value), "wants": str(wants.value), "variant": "cuda"},
            (has, wants),
        )


def _generation(version: str) -> int | None:
    found = re.match(r"\d+", version)
    return int(found[0]) if found else None


class _Refusal(msgspec.Struct, frozen=True):
    """One answer of CUDA at its start: by which words it is known, what it says, what to ask for."""

    code: int
    words: str
    says: str
    action: str
    severity: Severity = "review"


_REFUSALS = (
    _Refusal(802, r"SYSTEM_NOT_READY|not yet initialized", N_("the fabric of the GPUs is not set up"),
             N_("start the fabric manager of the driver's version and reset the GPUs")),
    _Refusal(803, r"SYSTEM_DRIVER_MISMATCH|unsupported display driver", N_("CUDA library and driver do not fit"),
             N_("reboot after the driver's upgrade")),
    _Refusal(804, r"COMPAT_NOT_SUPPORTED|forward compatibility", N_("a compatibility library the card cannot use"),
             N_("remove the CUDA compatibility package or update the driver")),
    _Refusal(214, r"ECC_UNCORRECTABLE|uncorrectable ECC", N_("an uncorrected memory error"),
             N_("drain and reset the GPU, replace it when it returns"), "reject"),
    _Refusal(220, r"NVLINK_UNCORRECTABLE|uncorrectable NVLink", N_("an uncorrected NVLink error"),
             N_("reset the GPUs and check their links")),
    _Refusal(46, r"DEVICE_UNAVAILABLE|busy or unavailable",
             N_("the GPU is held by another process, or MIG has no instance"), N_("free the GPU, or switch MIG off")),
    _Refusal(101, r"INVALID_DEVICE|invalid device ordinal", N_("a GPU that was named is not given to us"),
             N_("give access to all GPUs that were ordered")),
    _Refusal(100, r"NO_DEVICE|no CUDA-capable device", N_("no GPU is given to us"),
             N_("give access to the GPUs that were ordered")),
    _Refusal(999, r"CUDA_ERROR_UNKNOWN|CUDA unknown error", N_("unnamed; the module is not loaded, or the GPU is lost"),
             N_("load the driver's modules, else restart the server")),
)  # fmt: skip


@rule
def cuda_refuses(case: Case) -> Iterator[Finding]:
    """CUDA says at its start why it will not work; the probes that failed carry its word."""
    met: dict[int, tuple[_Refusal, list[ProbeRow]]] = {}
    for row in case.view.all_rows():
        refusal = _refusal(row)
        if refusal is not None:
            met.setdefault(refusal.code, (refusal, []))[1].append(row)
    for refusal, rows in met.values():
        gpus = sorted({row.subject for row in rows if row.subject in case.gpus})
        where = gpus if gpus and len(gpus) < case.count else ["server"]
        for subject in where:
            yield case.finding(
                "cuda-init-errors",
                "degraded",
                refusal.severity,
                subject,
                "evidence",
                "CUDA driver API: CUresult",
                {
                    "code": refusal.code,
                    "says": refusal.says,
                    "action": refusal.action,
                    "probes": ", ".join(sorted({row.probe for row in rows})),
                },
            )


def _refusal(row: ProbeRow) -> _Refusal | None:
    if row.status not in ("failed", "not_applicable") or not row.reason or "cuda" not in row.reason.lower():
        return None
    said = row.reason
    return next((r for r in _REFUSALS if re.search(rf"{r.words}|[Ee]rror {r.code}\b", said, re.IGNORECASE)), None)


@rule
def reset_pending(case: Case) -> Iterator[Finding]:
    """A mode that is set but waits for a reset: after it the GPU is another than the one that was measured."""
    for gpu in case.gpus:
        for metric, mode in (("gpu_identity_mig_enabled", N_("MIG")), ("gpu_identity_ecc_enabled", N_("ECC"))):
            now, then = (case.view.one(metric, gpu, which=which) for which in ("current", "pending"))
            if now is None or then is None or type(now.value) is not bool or type(then.value) is not bool:
                continue
            if now.value != then.value:
                yield case.finding(
                    "reset-pending",
                    "degraded",
                    "advice",
                    gpu,
                    "contradiction",
                    "NVML reference: current and pending mode",
                    {"mode": mode, "becomes": N_("on") if then.value else N_("off")},
                    (now, then),
                )


CAUSES = {
    "cuda-init-errors": (
        "gpu-lost",
        "fm-not-running",
        "driver-mismatch",
        "ecc-uncorrectable",
        "compute-mode-restricted",
        "mig-sliced",
        "gpu-count-short",
    ),
    "not-measured": ("cuda-init-errors",),
    "reset-pending": ("mig-sliced", "ecc-off"),
}

TEXTS = {
    "driver-differs": Text(
        N_("Another driver than ordered"),
        N_("driver {version}"),
        N_("driver {ordered}"),
        N_("Software that was tested with the ordered branch may behave otherwise."),
        N_("Driver {ordered} was ordered, {version} is installed. Please install the ordered branch."),
    ),
    "driver-mismatch": Text(
        N_("Driver library and kernel module differ"),
        N_("{versions}"),
        N_("one version"),
        N_("The driver was upgraded without a reboot; CUDA fails or will fail."),
        N_("Library and kernel module of the driver differ ({versions}). Please reboot."),
    ),
    "driver-too-old": Text(
        N_("The driver is too old"),
        N_("driver {version} has no name for the card"),
        N_("a driver that knows the card"),
        N_("The driver lacks names or paths (FP8) for this GPU."),
        N_("Please update the driver ({version})."),
        {
            "cuda": Text(
                N_("The driver is too old"),
                N_("driver {version} speaks CUDA {has}; the torch that was found is built for CUDA {wants}"),
                N_("a driver of the same CUDA generation or a newer one"),
                N_("Programs built for the newer generation do not start on this driver."),
                N_("Please update the driver ({version}): it does not serve CUDA {wants}."),
            )
        },
    ),
    "cuda-init-errors": Text(
        N_("CUDA does not start"),
        N_("CUDA error {code:int}: {says} (probes: {probes})"),
        N_("CUDA starts on every GPU"),
        N_("Nothing that needs CUDA can run here until this is mended."),
        N_("{subject}: CUDA error {code:int}, {says}. Please {action}."),
    ),
    "reset-pending": Text(
        N_("A mode of the GPU changes at the next reset"),
        N_("{mode} will be {becomes} after the next reset"),
        N_("the same mode now and after a reset"),
        N_("What was measured holds until then: memory, partition or error protection will be others."),
        N_("{gpu}: {mode} is set to be {becomes}, but the reset is missing. Please do it; then we audit again."),
    ),
}
