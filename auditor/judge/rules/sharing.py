"""Who else uses the GPU, and whether it can be used at all.

A hit of the watcher kernel is measured; memory or utilization without a visible process is the driver's word. Both
together are two families.
"""

from __future__ import annotations

from collections.abc import Iterator

from auditor.finding import Finding
from auditor.judge.case import Case
from auditor.judge.figures import figure
from auditor.judge.rule import rule
from auditor.judge.texts import N_, Text


@rule
def shared_gpu(case: Case) -> Iterator[Finding]:
    """Another tenant computes on the GPU: gaps in a watching kernel, or memory and load nobody visible holds."""
    view, lines = case.view, case.lines
    for gpu in case.gpus:
        gaps, watched = view.one("time_slicing_gaps_total", gpu), view.number("time_slicing_watch_seconds", gpu)
        rate = figure(gaps) / watched if gaps is not None and watched else 0.0
        hit = rate > lines.gaps_per_second.value
        visible = view.number("gpu_identity_processes_total", gpu) or 0
        used = view.one("gpu_identity_memory_used_bytes", gpu)
        busy = view.one("gpu_identity_utilization_ratio", gpu)
        held = used is not None and figure(used) > lines.used_before.value
        loaded = busy is not None and figure(busy) > lines.used_ratio.value
        if not hit and (visible or not (held or loaded)):
            continue
        yield case.finding(
            "shared-gpu",
            "misallocated",
            "reject",
            gpu,
            "evidence",
            lines.gaps_per_second.source if hit else lines.used_before.source,
            {
                "gaps_per_second": rate if gaps is not None else None,
                "longest": view.number("time_slicing_largest_gap_seconds", gpu),
                "used": figure(used) if used is not None else None,
                "busy": figure(busy) if busy is not None else None,
            },
            (gaps if hit else None, used if held else None, busy if loaded else None),
        )


@rule
def compute_mode(case: Case) -> Iterator[Finding]:
    """A compute mode that keeps a second process, or every process, off the GPU."""
    for gpu in case.gpus:
        mode = case.view.one("gpu_identity_compute_mode", gpu)
        if mode is None or mode.value not in ("exclusive_process", "prohibited"):
            continue
        yield case.finding(
            "compute-mode-restricted",
            "misallocated",
            "review" if mode.value == "prohibited" else "advice",
            gpu,
            "evidence",
            "NVML reference: compute mode",
            {"mode": str(mode.value)},
            (mode,),
        )


@rule
def slow_launch(case: Case) -> Iterator[Finding]:
    """A launch that takes as long as a network round trip."""
    for gpu in case.gpus:
        launch = case.view.one("latency_launch_seconds", gpu, stat="p50")
        if launch is not None and figure(launch) > case.lines.remote_launch.value:
            yield case.finding(
                "launch-slow",
                "underperforming",
                "review",
                gpu,
                "evidence",
                case.lines.remote_launch.source,
                {"measured": figure(launch), "expected": case.lines.remote_launch.value},
                (launch,),
            )


CAUSES = {
    "shared-gpu": ("vgpu-grid", "software-slice", "mig-sliced"),
    "launch-slow": ("api-remoting", "shared-gpu", "virtualized"),
    "compute-mode-restricted": (),
}

TEXTS = {
    "shared-gpu": Text(
        N_("Somebody else works on this GPU"),
        N_(
            "{gaps_per_second:int} gaps a second in a watching kernel; {used:GiB} in use and {busy:%} load "
            "before our own"
        ),
        N_("no gaps, an empty GPU"),
        N_("The GPU is shared by time slices: rates, latency and memory depend on a stranger."),
        N_("{gpu} is used by another tenant. Please deliver it in exclusive mode."),
    ),
    "compute-mode-restricted": Text(
        N_("The compute mode is restricted"),
        N_("{mode}"),
        N_("default"),
        N_("A second process, or every process, is refused on this GPU."),
        N_("Please set the compute mode of {gpu} to default (nvidia-smi -c 0)."),
    ),
    "launch-slow": Text(
        N_("Starting work on the GPU is slow"),
        N_("{measured:µs} for launch and synchronize"),
        N_("below {expected:µs}"),
        N_("Calls pass through a network, a sandbox or an overloaded host; small kernels suffer most."),
        N_("A kernel launch on {gpu} takes {measured:µs}. Please say what lies between program and GPU."),
    ),
}
