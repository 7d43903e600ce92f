"""What was delivered against what was ordered: model, count, memory, whole GPUs.

Signs, severities and known false positives: docs/thresholds.md, delivery.
"""

from __future__ import annotations

from collections.abc import Iterator

from auditor.catalog import names
from auditor.finding import Finding
from auditor.judge.case import Case
from auditor.judge.figures import figure
from auditor.judge.rule import rule
from auditor.judge.texts import N_, Text
from auditor.records import Reading

ORDER = "the order"
_SHOWN = ("gpu_identity_pci_device", "gpu_identity_name", "gpu_identity_sms_total", "gpu_identity_memory_bytes")


@rule
def wrong_model(case: Case) -> Iterator[Finding]:
    """Another model than ordered, decided by PCI id, SM count and memory, never by the name alone."""
    if case.order is None or not case.order.gpu or not case.ordered:
        return
    wrong = {
        gpu: identity.model
        for gpu, identity in case.identities.items()
        if identity.model is not None and identity.model not in case.ordered and not identity.model.modded
    }
    everywhere = len(wrong) == case.count and len({model.name for model in wrong.values()}) == 1
    subjects = {"server": next(iter(wrong))} if everywhere else {gpu: gpu for gpu in wrong}
    for subject, gpu in subjects.items():
        yield case.finding(
            "gpu-wrong-model",
            "misallocated",
            "reject",
            subject,
            "order",
            ORDER,
            {
                "ordered": case.order.gpu,
                "delivered": wrong[gpu].name,
                "count": len(wrong) if everywhere else 1,
                "pci": case.view.text("gpu_identity_pci_device", gpu),
                "sms": case.view.number("gpu_identity_sms_total", gpu),
            },
            _identity_evidence(case, gpu),
        )


@rule
def unlisted_order(case: Case) -> Iterator[Finding]:
    """An ordered model no table knows: nothing is known to hold the GPUs against, so nobody is accused by a name.

    For review where the GPUs are another model than the one whose name comes nearest, else advice.
    """
    if case.order is None or not case.order.gpu or case.ordered:
        return
    wanted = names.words(case.order.gpu)
    called = {gpu: case.view.text("gpu_identity_name", gpu) for gpu in case.gpus}
    strangers = [gpu for gpu, name in called.items() if name is not None and not wanted <= names.words(name)]
    if not strangers:
        return
    near = names.nearest(case.order.gpu, case.catalog.models)
    yield case.finding(
        "ordered-model-unknown",
        "unproven",
        "advice" if all(case.identities[gpu].model in near for gpu in strangers) else "review",
        "server",
        "order",
        ORDER,
        {
            "ordered": case.order.gpu,
            "delivered": _delivered(case, strangers[0]),
            "count": len(strangers),
            "pci": case.view.text("gpu_identity_pci_device", strangers[0]),
            "sms": case.view.number("gpu_identity_sms_total", strangers[0]),
            "near": ", ".join(model.name for model in near[:3]) or None,
            "variant": None if near else "nothing-near",
        },
        _identity_evidence(case, strangers[0]),
    )


@rule
def order_no_machine_meets(case: Case) -> Iterator[Finding]:
    """An interconnect that the ordered model is not made with: no delivery can be what was ordered."""
    order = case.order
    if order is None or case.view.record is None or not case.ordered:
        return
    able = {
        "nvswitch": any(model.nvswitch_capable for model in case.ordered),
        "nvlink": any(model.nvlink_links for model in case.ordered),
        "nvlink_bridge": any(model.nvlink_links for model in case.ordered),
    }
    if order.interconnect is not None and not able.get(order.interconnect, True):
        yield case.finding(
            "order-impossible",
            "misallocated",
            "review",
            "server",
            "order",
            "the order against the catalogue (auditor catalog show)",
            {"ordered": order.gpu, "interconnect": order.interconnect},
            list(case.mesh.cells.values())[:4],
        )


def _delivered(case: Case, gpu: str) -> str | None:
    model = case.identities[gpu].model
    return model.name if model else case.view.text("gpu_identity_name", gpu)


@rule
def count_short(case: Case) -> Iterator[Finding]:
    """Fewer GPUs than ordered: each family that counts fewer stands as evidence."""
    if case.order is None or case.order.gpus == 0:
        return
    view, ordered = case.view, case.order.gpus
    counts = {
        metric: view.one(metric)
        for metric in (
            "server_facts_gpus_nvml_total",
            "server_facts_gpus_cuda_total",
            "server_facts_gpu_nodes_total",
            "server_facts_gpus_on_bus_total",
        )
    }
    usable = [counts["server_facts_gpus_nvml_total"], counts["server_facts_gpus_cuda_total"]]
    values = [int(r.value) for r in usable if r is not None and isinstance(r.value, (int, float))]
    if case.gpus and not case.text_only:  # a pasted excerpt shows some of the GPUs
        values.append(case.count)
    if not values or max(values) >= ordered:
        return
    short = [r for r in counts.values() if r is not None and isinstance(r.value, (int, float)) and r.value < ordered]
    bus = view.number("server_facts_gpus_on_bus_total")
    yield case.finding(
        "gpu-count-short",
        "misallocated",
        "reject",
        "server",
        "order",
        ORDER,
        {"ordered": ordered, "measured": max(values), "on_bus": bus},
        short,
    )


@rule
def subset_of_a_node(case: Case) -> Iterator[Finding]:
    """GPUs that were not given show: on the bus, as gaps in the device numbers, as links that lead to no peer."""
    bus = case.view.one("server_facts_gpus_on_bus_total")
    given = case.view.number("server_facts_gpus_nvml_total") or case.count
    minors = [r for gpu in case.gpus if (r := case.view.one("gpu_identity_minor", gpu)) is not None]
    if not given or case.text_only and bus is None:
        return
    more = bus is not None and isinstance(bus.value, (int, float)) and bus.value > given
    highest = max((int(float(r.value)) for r in minors if isinstance(r.value, (int, float))), default=-1)
    alone = [r for r in case.mesh.active.values() if r.value] if case.count == 1 else []
    if not more and highest < given and not alone:
        return
    yield case.finding(
        "gpu-subset-shared-node",
        "misallocated",
        "advice",
        "server",
        "evidence",
        "the PCI bus (sysfs), device numbers and NVLinks against what the driver was given",
        {
            "given": given,
            "on_bus": bus.value if bus is not None else None,
            "number": highest,
            "links": alone[0].value if alone else None,
            "variant": None if more else "numbers" if highest >= given else "links",
        },
        (bus, case.view.one("server_facts_gpus_nvml_total"), *minors, *alone),
    )


@rule
def memory_short(case: Case) -> Iterator[Finding]:
    """Less GPU memory than the model has or than was ordered."""
    ratio = case.lines.memory_short.value
    for gpu in case.gpus:
        reading = case.view.one("gpu_identity_memory_bytes", gpu)
        if reading is None or not isinstance(reading.value, (int, float)):
            continue
        model = case.identities[gpu].model
        expected, basis = (min(model.memory_bytes), "spec") if model and model.memory_bytes else (0.0, "spec")
        source = "; ".join(model.sources[:1]) if model else ""
        if case.order is not None and case.order.memory_gb is not None:
            expected, basis, source = case.order.memory_gb * 1e9, "order", ORDER
        if reading.value < ratio * expected:
            written = case.view.one("memory_capacity_bytes", gpu)  # a witness only where it is short as well
            yield case.finding(
                "memory-short",
                "misallocated",
                "reject",
                gpu,
                "order" if basis == "order" else "spec",
                source,
                {"measured": reading.value, "expected": expected},
                (reading, written if written is not None and figure(written) < ratio * expected else None),
            )


@rule
def capacity_short(case: Case) -> Iterator[Finding]:
    """Memory the driver promises but that cannot be written and read back."""
    for gpu in case.gpus:
        written = case.view.one("memory_capacity_bytes", gpu)
        promised = case.view.one("gpu_identity_memory_bytes", gpu)
        if written is None or promised is None:
            continue
        held, said = written.value, promised.value
        if not isinstance(held, (int, float)) or not isinstance(said, (int, float)):
            continue
        cut = case.view.row("memory_capacity", gpu)
        if held < case.lines.capacity_short.value * said and not (cut and cut.cut):
            yield case.finding(
                "memory-capacity-short",
                "unproven",
                "review",
                gpu,
                "contradiction",
                case.lines.capacity_short.source,
                {"measured": held, "expected": said},
                (written, promised),
            )


@rule
def mig_sliced(case: Case) -> Iterator[Finding]:
    """MIG splits the GPU; whole GPUs were ordered."""
    for gpu in case.gpus:
        mig = case.view.one("gpu_identity_mig_enabled", gpu, which="current")
        named = [r for r in case.view.all("gpu_identity_name", gpu) if "MIG " in str(r.value)]
        if (mig is None or mig.value is not True) and not named:
            continue
        yield case.finding(
            "mig-sliced",
            "misallocated",
            "reject" if case.order else "review",
            gpu,
            "order" if case.order else "evidence",
            ORDER if case.order else "NVML reference: MIG mode",
            {"profile": str(named[0].value).split("MIG ", 1)[1] if named else None},
            (mig, *named, *_slice_evidence(case, gpu)),
        )


@rule
def mixed_batch(case: Case) -> Iterator[Finding]:
    """GPUs of one server that are not of one model."""
    models = {gpu: identity.model.name for gpu, identity in case.identities.items() if identity.model}
    kinds = sorted(set(models.values()))
    if len(kinds) > 1 and not case.ordered:
        yield case.finding(
            "gpu-mixed-models",
            "misallocated",
            "review",
            "server",
            "siblings",
            "GPUs of one server",
            {"models": ", ".join(kinds)},
            [reading for gpu in models for reading in _identity_evidence(case, gpu)[:1]],
        )


def _identity_evidence(case: Case, gpu: str) -> list[Reading]:
    return [reading for metric in _SHOWN for reading in case.view.all(metric, gpu)]


def _slice_evidence(case: Case, gpu: str) -> list[Reading | None]:
    """A second family for a slice: what could be written, or what the silicon did."""
    model = case.identities[gpu].model
    written = case.view.one("memory_capacity_bytes", gpu)
    if written is None or model is None or not model.memory_bytes:
        return []
    whole = min(model.memory_bytes)
    return [written] if isinstance(written.value, (int, float)) and written.value < 0.9 * whole else []


CAUSES = {
    "gpu-count-short": ("gpu-lost",),
    "gpu-subset-shared-node": ("gpu-count-short",),
    "memory-short": ("mig-sliced", "vgpu-grid", "software-slice", "gpu-wrong-model"),
    "memory-capacity-short": ("mig-sliced", "vgpu-grid", "software-slice", "shared-gpu", "gpu-in-use"),
}

TEXTS = {
    "gpu-wrong-model": Text(
        N_("Another GPU model than ordered"),
        N_("{delivered}; GPUs: {count:int} (PCI id {pci}, SMs: {sms:int})"),
        N_("{ordered}"),
        N_("PCI id, SM count and memory name the model; the name alone would prove nothing."),
        N_("Ordered {ordered}, delivered {delivered}. Please replace the GPUs or re-price the server as delivered."),
    ),
    "ordered-model-unknown": Text(
        N_("The ordered model is in no table"),
        N_("{delivered}; GPUs: {count:int} (PCI id {pci}, SMs: {sms:int})"),
        N_("{ordered}, which no table knows; nearest: {near}"),
        N_("Without a known model there is nothing to hold the GPUs against. Correct the order, then report again."),
        "",
        {
            "nothing-near": Text(
                N_("The ordered model is in no table"),
                N_("{delivered}; GPUs: {count:int} (PCI id {pci}, SMs: {sms:int})"),
                N_("{ordered}, which no table knows; no known name comes near"),
                N_(
                    "Without a known model there is nothing to hold the GPUs against. Correct the order, then report "
                    "again."
                ),
            )
        },
    ),
    "order-impossible": Text(
        N_("No machine can be what was ordered"),
        N_("{ordered} is made without {interconnect}"),
        N_("{ordered} with {interconnect}, as the order says"),
        N_("Either the order is wrong, or something was sold that does not exist. Correct it, then report again."),
        N_("{interconnect} was ordered with {ordered}, which is not made with it. Please say what was sold."),
    ),
    "gpu-count-short": Text(
        N_("Fewer GPUs than ordered"),
        N_("GPUs usable: {measured:int} (on the PCI bus: {on_bus:int})"),
        N_("GPUs: {ordered:int}"),
        N_(
            "Paid GPUs are missing. Where the bus shows more than the driver, they exist but were not given "
            "or were lost."
        ),
        N_(
            "{ordered:int} GPUs were ordered and {measured:int} delivered. Please give all GPUs of the node, "
            "or state the slice in writing."
        ),
    ),
    "gpu-subset-shared-node": Text(
        N_("A slice of a bigger node"),
        N_("GPUs given: {given:int}; in the machine: {on_bus:int}"),
        N_("all GPUs of the machine, or isolation in writing"),
        N_("Neighbours share CPU, memory, network cards and NVSwitch with you."),
        N_("Please deliver the whole node or confirm in writing how the other tenants are kept apart."),
        {
            "numbers": Text(
                N_("A slice of a bigger node"),
                N_("GPUs given: {given:int}; the driver numbers them up to {number:int}, counting from 0"),
                N_("all GPUs of the machine, or isolation in writing"),
                N_("Neighbours share CPU, memory, network cards and NVSwitch with you."),
                N_("Please deliver the whole node or confirm in writing how the other tenants are kept apart."),
            ),
            "links": Text(
                N_("A slice of a bigger node"),
                N_("GPUs given: {given:int}, with {links:int} active NVLinks that lead to no GPU of yours"),
                N_("all GPUs of the machine, or isolation in writing"),
                N_("Neighbours share CPU, memory, network cards and NVSwitch with you."),
                N_("Please deliver the whole node or confirm in writing how the other tenants are kept apart."),
            ),
        },
    ),
    "memory-short": Text(
        N_("Less GPU memory than expected"),
        N_("{measured:GiB}"),
        N_("{expected:GiB}"),
        N_("Models that were sized for the full memory will not fit."),
        N_("{gpu} reports {measured:GiB} of {expected:GiB}. Please deliver the full memory or explain the difference."),
    ),
    "memory-capacity-short": Text(
        N_("GPU memory that cannot be used"),
        N_("{measured:GiB} could be written and read back"),
        N_("{expected:GiB} as the driver reports"),
        N_("The card is sliced, shared, or reports memory it does not have."),
        N_(
            "Only {measured:GiB} of the {expected:GiB} reported for {gpu} could be used. "
            "Please explain or replace the card."
        ),
    ),
    "mig-sliced": Text(
        N_("MIG is on: the GPU is split"),
        N_("MIG mode is on (profile {profile})"),
        N_("whole GPUs"),
        N_("A MIG slice has a fraction of the SMs, memory and bandwidth, and no NVLink."),
        N_("{gpu} is a MIG slice. Please disable MIG, reset the GPU and deliver it whole."),
    ),
    "gpu-mixed-models": Text(
        N_("Different GPU models in one server"),
        N_("{models}"),
        N_("GPUs of one model"),
        N_("The slowest model sets the pace of every collective."),
        N_("The GPUs of this server are not of one model ({models}). Please deliver GPUs of one model."),
    ),
}
