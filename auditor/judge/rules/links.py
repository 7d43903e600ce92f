"""NVLink and what feeds it: missing, partial, half, not meshed, fabric manager, peer access.

NVLink is judged with two or more GPUs, or when it was ordered; for one GPU alone its absence is information.
Full pictures per machine: docs/thresholds.md, links; links per model: the catalogue.
"""

from __future__ import annotations

from collections.abc import Iterator

from auditor.catalog.model import Model
from auditor.finding import Finding
from auditor.judge.case import Case
from auditor.judge.figures import figure
from auditor.judge.mesh import Mesh
from auditor.judge.plausible import PCIE
from auditor.judge.rule import rule
from auditor.judge.texts import N_, Text
from auditor.records import Reading

ORDER = "the order"
_ORDERED_NVLINK = ("nvswitch", "nvlink", "nvlink_bridge")


def mesh(case: Case) -> Mesh:
    """The topology of a server, read once."""
    return case.mesh


def expects_nvlink(case: Case) -> Model | None:
    """The model whose full NVLink this server should have; None when none is expected."""
    models = case.expected_models
    model = next((m for m in models if m.nvlink_links), None)
    if model is None:
        return None
    ordered = case.order.interconnect if case.order else None
    if ordered is not None:
        return model if ordered in _ORDERED_NVLINK else None
    # An excerpt about GPU 3 alone speaks of a server with several GPUs.
    several = case.order.gpus > 1 if case.order else _shown(case) > 1
    return model if several and model.sxm else None


def _shown(case: Case) -> int:
    if not case.text_only or not case.gpus:
        return case.count
    return max(case.count, 1 + max(case.view.subjects[gpu].index or 0 for gpu in case.gpus))


def split(case: Case) -> bool:
    """MIG and vGPU hide NVLink by design; what they hide is not a fault of the links."""
    mig = any(case.view.flag("gpu_identity_mig_enabled", gpu, which="current") for gpu in case.gpus)
    return mig or case.machine.level == "vGPU"


@rule
def nvlink_missing(case: Case) -> Iterator[Finding]:
    """No GPU has a usable NVLink although the order or the board promises it."""
    model = expects_nvlink(case)
    if model is None or not case.gpus or split(case):
        return
    seen = case.mesh
    inactive = [reading for reading in seen.active.values() if reading.value == 0]
    refused = [r for r in case.view.unreadable if r.metric in _COUNTS and r.subject in case.gpus]
    if any(seen.bonded.values()) or any(reading.value for reading in seen.active.values()):
        return
    if not seen.cells and not inactive and not (refused and case.count == 1):
        return
    ordered = case.order is not None and case.order.interconnect in _ORDERED_NVLINK
    disabled = case.view.one("server_facts_driver_parameter", name="NvLinkDisable")
    words = sorted({str(cell.value) for cell in seen.cells.values()})
    yield case.finding(
        "nvlink-missing",
        "misallocated",
        "reject",
        "server",
        "order" if ordered else "spec",
        ORDER if ordered else "; ".join(model.sources[:1]),
        {
            "paths": ", ".join(words) if words else None,
            "pairs": len(seen.cells),
            "expected": model.nvlink_links,
            "model": model.name,
            "disabled": _set(disabled),
            "gpus": case.count,
            "variant": None if seen.cells else "alone" if case.count == 1 else "uncounted",
        },
        (*list(seen.cells.values())[:8], *inactive, *refused, disabled, *_slow(case, model)),
    )


def _set(parameter: Reading | None) -> bool | None:
    """Whether a driver parameter is 1; None where nobody could read it."""
    return None if parameter is None or parameter.value is None else str(parameter.value) == "1"


_COUNTS = ("topology_nvlinks_active_total", "topology_nvlinks_supported_total")


def _slow(case: Case, model: Model) -> list[Reading]:
    """The measured witness: copies or collectives slower than one NVLink of this model could be."""
    one_link = model.nvlink_direction / model.nvlink_links
    out: list[Reading] = []
    for reading in case.view.all("peer_copy_bytes_per_second", direction="one_way"):
        if isinstance(reading.value, (int, float)) and reading.value < 3 * one_link:
            out.append(reading)
            break
    for reading in case.view.all("collectives_algbw_bytes_per_second", "server", op="all_reduce"):
        size = reading.conditions.get("bytes", 0)
        big = isinstance(size, (int, float)) and size >= 64e6
        if big and isinstance(reading.value, (int, float)) and reading.value < case.lines.allreduce_floor_nvlink.value:
            out.append(reading)
            break
    return out


@rule
def nvlink_off_alone(case: Case) -> Iterator[Finding]:
    """One GPU of an SXM board without NVLink: nothing is lost for one GPU, so it is only said."""
    if case.count != 1 or case.model is None or not case.model.sxm or expects_nvlink(case) is not None:
        return
    gpu = case.gpus[0]
    active = case.view.one("topology_nvlinks_active_total", gpu)
    refused = next((r for r in case.view.unreadable if r.metric in _COUNTS and r.subject == gpu), None)
    disabled = case.view.one("server_facts_driver_parameter", name="NvLinkDisable")
    off = active is not None and active.value == 0
    if off or refused is not None or (disabled is not None and str(disabled.value) == "1"):
        yield case.finding(
            "nvlink-off",
            "virtualized",
            "info",
            gpu,
            "evidence",
            "NVLink is judged with two or more GPUs, or when it was ordered (docs/orders.md)",
            {"model": case.model.name},
            (active, refused, disabled),
        )


@rule
def nvlink_partial(case: Case) -> Iterator[Finding]:
    """Fewer links than the model has, on a server that has NVLink: half on all GPUs is a partition, less is a fault."""
    model = expects_nvlink(case)
    if model is None or split(case):
        return
    seen = case.mesh
    counts = {gpu: int(float(reading.value or 0)) for gpu, reading in seen.active.items()}
    if not counts or not any(counts.values()):
        return
    short = {gpu: n for gpu, n in counts.items() if n < model.nvlink_links}
    if not short:
        return
    everywhere = len(short) == len(counts) and len(set(short.values())) == 1
    n = next(iter(short.values()))
    if everywhere and model.nvswitch_capable and 2 * n == model.nvlink_links and all(seen.bonded.values()):
        yield case.finding(
            "nvlink-half-partition",
            "misallocated",
            "review",
            "server",
            "spec",
            "; ".join(model.sources[:1]),
            {"measured": n, "expected": model.nvlink_links, "model": model.name},
            (*seen.active.values(), *list(seen.cells.values())[:4]),
        )
        return
    for gpu in ("server",) if everywhere else short:
        named = next(iter(short)) if gpu == "server" else gpu
        states = case.view.all("topology_link_state")
        down = [r for r in states if r.subject.startswith(f"{named}/") and r.value != "active"]
        yield case.finding(
            "nvlink-partial",
            "misallocated",
            "review",
            gpu,
            "spec",
            "; ".join(model.sources[:1]),
            {
                "measured": short[named],
                "expected": model.nvlink_links,
                "model": model.name,
                "links": ", ".join(r.subject.split("/link")[-1] for r in down) or None,
            },
            (*([seen.active[named]] if gpu != "server" else seen.active.values()), *down),
        )


@rule
def nvlink_no_mesh(case: Case) -> Iterator[Finding]:
    """An SXM board whose NVLink does not join all GPUs: no HGX board, a broken switch fabric, or a false name.

    Also links that are up while no pair is joined: copies between GPUs tell whether the fabric or the matrix is wrong.
    """
    model = expects_nvlink(case)
    if model is None or not model.nvswitch_capable or split(case):
        return
    seen = case.mesh
    gaps = seen.without
    if not gaps:
        return
    unjoined = len(gaps) == len(seen.bonded)
    up = [reading for reading in seen.active.values() if reading.value]
    if unjoined:
        if not up or any(carried(case, model, pair) for pair in gaps):
            return  # nvlink-missing says it; where copies run at NVLink's rate the matrix is wrong
        within = list(gaps)
    else:
        linked = {gpu for pair, links in seen.bonded.items() if links for gpu in case.view.members(pair) or ()}
        within = [pair for pair in gaps if set(case.view.members(pair) or ()) <= linked]
    if not within:
        return  # whole GPUs are cut off, the rest is meshed: nvlink-partial names them
    yield case.finding(
        "nvlink-no-mesh",
        "misallocated",
        "reject",
        "server",
        "spec",
        "; ".join(model.sources[:1]),
        {
            "pairs": len(within),
            "of": len(seen.bonded),
            "model": model.name,
            "active": min(int(float(r.value or 0)) for r in up) if unjoined else None,
            "variant": "unjoined" if unjoined else None,
        },
        (*[seen.cells[pair] for pair in within[:8]], *(up if unjoined else ()), *_slow(case, model)),
    )


def carried(case: Case, model: Model, pair: str) -> bool:
    """The pair's copies run faster than PCIe could: NVLink carries them, whatever the matrix says."""
    rates = case.view.all("peer_copy_bytes_per_second", pair, direction="one_way")
    return any(figure(r) > PCIE.get(model.pcie_gen, PCIE[6]) for r in rates)


@rule
def fabric_manager(case: Case) -> Iterator[Finding]:
    """An NVSwitch machine whose fabric was never set up, or whose fabric manager died after it was."""
    model = case.model
    if model is None or not model.nvswitch_capable or case.count < 2:
        return
    states = [r for gpu in case.gpus if (r := case.view.one("topology_fabric_state", gpu))]
    unready = [r for r in states if r.value in ("not_started", "in_progress")]
    failed = [
        r for gpu in case.gpus if (r := case.view.one("topology_fabric_status", gpu)) and r.value not in (0, None)
    ]
    service = case.view.one("server_facts_fabric_manager")
    dead = service is not None and service.value in ("inactive", "failed")
    completed = bool(states) and all(r.value == "completed" for r in states)
    if unready or (failed and not completed):
        yield case.finding(
            "fm-not-running",
            "misallocated",
            "reject",
            "server",
            "evidence",
            "NVIDIA Fabric Manager user guide: fabric state and registration",
            {"state": str((unready or failed)[0].value), "service": str(service.value) if service else None},
            (*unready, *failed, service if dead else None),
        )
    elif dead and not _in_guest(case):
        yield case.finding(
            "fm-not-running",
            "misallocated",
            "review",
            "server",
            "contradiction" if completed else "evidence",
            "NVIDIA Fabric Manager user guide: the state stays completed until the next reset",
            {"state": "completed" if completed else None, "service": str(service.value) if service else None},
            (service, *states[:1]),
        )


_SOUND = ("healthy", "not told", "n/a", "[n/a]", "not supported")


@rule
def fabric_unhealthy(case: Case) -> Iterator[Finding]:
    """The fabric's own word about a GPU: routes in trouble, bandwidth degraded, or set up for another partition."""
    for gpu in case.gpus:
        told = case.view.one("topology_fabric_health", gpu)
        if told is None or str(told.value).strip().lower() in _SOUND:
            continue
        yield case.finding(
            "fabric-unhealthy",
            "degraded",
            "review" if case.count > 1 or expects_nvlink(case) else "info",
            gpu,
            "evidence",
            "NVML reference: nvmlGpuFabricInfo, health mask",
            {"health": str(told.value).replace("_", " ")},
            (told, case.view.one("topology_fabric_state", gpu)),
        )


def _in_guest(case: Case) -> bool:
    """Guests of the shared-NVSwitch model have no fabric manager of their own."""
    return case.machine.level in ("passthrough guest", "container", "vGPU", "sandbox")


CAUSES = {
    "nvlink-missing": ("fm-not-running", "virtualized", "gpu-wrong-model", "vgpu-grid", "mig-sliced"),
    "nvlink-partial": ("gpu-wrong-model", "nvlink-missing", "fm-not-running"),
    "nvlink-half-partition": ("gpu-wrong-model", "virtualized"),
    "nvlink-no-mesh": ("fm-not-running", "gpu-wrong-model", "patched-name"),
    "nvlink-off": ("virtualized",),
    "fm-not-running": (),
    "fabric-unhealthy": ("fm-not-running", "gpu-lost", "nvlink-partial"),
}

TEXTS = {
    "nvlink-missing": Text(
        N_("NVLink is off"),
        N_("pairs of GPUs without NVLink: {pairs:int} (paths {paths}; driver parameter NvLinkDisable set: {disabled})"),
        N_("{expected:int} NVLinks per GPU ({model})"),
        N_("GPUs talk over PCIe or host memory: collectives run 5 to 20 times slower and training does not scale."),
        N_(
            "No NVLink is active between the GPUs. Please start the fabric manager of exactly the driver's "
            "version, "
            "reboot, or give the guest its NVLink partition."
        ),
        {
            "alone": Text(
                N_("NVLink is off"),
                N_("the one GPU shows no active NVLink (driver parameter NvLinkDisable set: {disabled})"),
                N_("{expected:int} NVLinks per GPU ({model})"),
                N_("What was ordered is not there: a second GPU could be reached over PCIe or host memory only."),
                N_(
                    "No NVLink is active on the GPU. Please start the fabric manager of exactly the driver's version, "
                    "reboot, or give the guest its NVLink partition."
                ),
            ),
            "uncounted": Text(
                N_("NVLink is off"),
                N_("no GPU shows an active NVLink (GPUs: {gpus:int}; driver parameter NvLinkDisable set: {disabled})"),
                N_("{expected:int} NVLinks per GPU ({model})"),
                N_(
                    "GPUs talk over PCIe or host memory: collectives run 5 to 20 times slower and training does not "
                    "scale."
                ),
                N_(
                    "No NVLink is active between the GPUs. Please start the fabric manager of exactly the driver's "
                    "version, "
                    "reboot, or give the guest its NVLink partition."
                ),
            ),
        },
    ),
    "nvlink-off": Text(
        N_("NVLink is off (one GPU)"),
        N_("no NVLink on the only GPU"),
        N_("nothing: one GPU has no peer"),
        N_("Nothing is lost for a single GPU."),
    ),
    "nvlink-partial": Text(
        N_("NVLinks are missing"),
        N_("active links: {measured:int} (down: {links})"),
        N_("{expected:int} links ({model})"),
        N_("The GPU with fewest links sets the pace of every collective."),
        N_(
            "{subject}: {measured:int} of {expected:int} NVLinks are active. Please reseat the bridge, reset the "
            "GPU "
            "or replace the tray."
        ),
    ),
    "nvlink-half-partition": Text(
        N_("Half of the NVLinks were given"),
        N_("{measured:int} links on every GPU"),
        N_("{expected:int} links ({model})"),
        N_("The guest probably got half of the switches: full connection, half the bandwidth."),
        N_(
            "Every GPU has {measured:int} of {expected:int} NVLinks. Please give a partition with all switches, "
            "or the price of this one."
        ),
    ),
    "nvlink-no-mesh": Text(
        N_("NVLink does not join all GPUs"),
        N_("pairs of GPUs without NVLink: {pairs:int} of {of:int}"),
        N_("NVLink between all pairs ({model} with NVSwitch)"),
        N_("Either this is no HGX board, its switch fabric is broken, or the name is false."),
        N_(
            "{pairs:int} of {of:int} GPU pairs have no NVLink. Please repair the switch fabric or say which board "
            "this is."
        ),
        {
            "unjoined": Text(
                N_("NVLinks are up but join no GPUs"),
                N_("pairs of GPUs without NVLink: {pairs:int} of {of:int}; active links per GPU: {active:int}"),
                N_("NVLink between all pairs ({model} with NVSwitch)"),
                N_(
                    "The links reach the switches and end there: no partition joins these GPUs, or the fabric was not "
                    "set up to the end. GPUs talk over PCIe or host memory."
                ),
                N_(
                    "The NVLinks of all GPUs are up but no pair is joined. Please activate the NVLink partition of "
                    "these GPUs, restart the fabric manager and reset the GPUs."
                ),
            )
        },
    ),
    "fabric-unhealthy": Text(
        N_("The NVLink fabric is not healthy"),
        N_("the driver says: {health}"),
        N_("a healthy fabric"),
        N_("Routes between the GPUs are missing or slow; collectives wait for the slowest route."),
        N_(
            "{gpu}: the fabric reports {health}. Please repair the NVLink fabric and its partition, and reset the GPUs."
        ),
    ),
    "fm-not-running": Text(
        N_("The fabric manager is not running"),
        N_("fabric state {state}, service {service}"),
        N_("fabric registered, service active"),
        N_("Without it NVSwitch carries nothing, or stops at the next reset."),
        N_(
            "Please install nvidia-fabricmanager of exactly the driver's version, enable and restart it, "
            "and reset the GPUs."
        ),
    ),
}
