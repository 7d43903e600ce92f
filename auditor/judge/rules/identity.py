"""Is the GPU what it says? Driver against kernel against measurement, within one GPU and across servers.

Explained first: MIG, vGPU, an old driver without the name. Then a contradiction between two families is a finding;
what rests on the driver alone is for review. Signs: docs/thresholds.md, identity.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from auditor.catalog import names
from auditor.catalog.identify import MEASURED, NAMELESS, Contradiction, bare_name
from auditor.finding import Finding, Severity
from auditor.judge.case import Case
from auditor.judge.figures import figure
from auditor.judge.fleet import Digest, Fleet
from auditor.judge.rule import fleet_rule, rule
from auditor.judge.rules.links import split
from auditor.judge.signs import SLICE_LIBRARY
from auditor.judge.texts import N_, Text
from auditor.judge.view import says_something, told_by
from auditor.records import Reading

EVIDENCE = "NVML, CUDA, /proc/driver/nvidia and sysfs, held against each other and the catalogue"
CMP = {"10de:20c2", "10de:2082", "10de:220d", "10de:1e09"}
_FACTS = ("sms", "l2_bytes", "bus_bits", "compute_capability")
_SAME = {
    "gpu_identity_name": N_("name"),
    "gpu_identity_uuid": N_("UUID"),
    "gpu_identity_pci_device": N_("PCI id"),
    "gpu_identity_pci_subsystem": N_("PCI subsystem"),
    "gpu_identity_compute_capability": N_("compute capability"),
    "gpu_identity_vbios": N_("VBIOS"),
}
_HIDDEN_BY_SLICES = ("gpu_identity_name", "gpu_identity_uuid", "gpu_identity_memory_bytes")
MEMORY_APART = 0.06


@rule
def sources_disagree(case: Case) -> Iterator[Finding]:
    """Two sources that name one GPU differently: NVML, CUDA, /proc/driver and sysfs must agree."""
    sliced = split(case)
    for gpu in case.gpus:
        apart: list[tuple[str, list[Reading]]] = []
        for metric, word in _SAME.items():
            if sliced and metric in _HIDDEN_BY_SLICES:
                continue
            readings = [r for r in case.view.all(metric, gpu) if isinstance(r.value, str) and _tells(metric, r.value)]
            if len({_spelled(metric, str(r.value)) for r in readings}) > 1:
                apart.append((word, readings))
        memory = [r for r in case.view.all("gpu_identity_memory_bytes", gpu) if figure(r) > 0]
        if not sliced and len(memory) > 1 and min(map(figure, memory)) < (1 - MEMORY_APART) * max(map(figure, memory)):
            apart.append((N_("memory"), memory))
        if apart:
            readings = [r for _, rows in apart for r in rows]
            yield case.finding(
                "nvml-vs-cuda-disagree",
                "unproven",
                "reject",
                gpu,
                "contradiction",
                EVIDENCE,
                {
                    "what": ", ".join(word for word, _ in apart),
                    "values": "; ".join(f"{r.source}: {r.value}" for r in apart[0][1]),
                },
                readings,
            )


def _tells(metric: str, value: str) -> bool:
    """False for what a driver says where it has no value, or no name for a card that is younger than itself."""
    return says_something(value) and not (metric == "gpu_identity_name" and value.strip().upper() in NAMELESS)


def _spelled(metric: str, value: str) -> str:
    """What two sources may write differently about one thing."""
    if metric == "gpu_identity_name":
        return " ".join(sorted(names.words(bare_name(value))))
    return value.strip().lower().removeprefix("gpu-").replace("0x", "")


@rule
def false_name(case: Case) -> Iterator[Finding]:
    """The name does not fit what PCI id, SM count, L2 and memory bus say: a patched name, or a card sold as another."""
    for gpu, identity in case.identities.items():
        ids = list(case.view.all("gpu_identity_pci_device", gpu))
        named = [r for r in case.view.all("gpu_identity_name", gpu) if _tells(r.metric, str(r.value))]
        cmp = [r for r in ids if str(r.value).lower() in CMP]
        if cmp and named and "CMP" not in str(named[0].value).upper():
            yield _false(case, "cmp-as-a100", gpu, "CMP", (*cmp, *named))
            continue
        model = identity.model
        if model is None or split(case):
            continue
        against = [c for c in identity.contradictions if c.sign.what in ("name", "pci_device", *_FACTS)]
        if not against:
            continue
        id = "patched-name"
        if model.geforce and any("GEFORCE" not in str(r.value).upper() for r in named) and _names(against):
            id = "geforce-as-datacenter"
        readings = [c.sign.key for c in against if isinstance(c.sign.key, Reading)]
        witnesses = [r for metric in _WITNESSES for r in case.view.all(metric, gpu) if r not in readings]
        yield _false(case, id, gpu, model.name, (*readings, *named, *ids, *witnesses), against)


_WITNESSES = ("gpu_identity_sms_total", "gpu_identity_l2_bytes", "gpu_identity_memory_bus_bits")


def _names(against: list[Contradiction]) -> bool:
    return any(c.sign.what == "name" for c in against)


def _false(
    case: Case,
    id: str,
    gpu: str,
    looks: str,
    evidence: tuple[Reading, ...],
    against: list[Contradiction] | None = None,
) -> Finding:
    unique = list(dict.fromkeys(id_ for id_ in map(id_of, evidence)))
    rows = {id_of(r): r for r in evidence}
    return case.finding(
        id,
        "unproven",
        "reject",
        gpu,
        "contradiction",
        EVIDENCE,
        {
            "name": case.view.text("gpu_identity_name", gpu),
            "looks": looks,
            "what": ", ".join(dict.fromkeys(c.sign.what for c in against or [])) or None,
        },
        [rows[key] for key in unique],
    )


def id_of(reading: Reading) -> tuple[str, str, str]:
    """What makes two readings the same row of evidence."""
    return reading.metric, reading.source, str(reading.value)


@rule
def memory_mod(case: Case) -> Iterator[Finding]:
    """More memory than the card was ever made with: it was soldered on."""
    for gpu, identity in case.identities.items():
        model = identity.model
        reading = case.view.one("gpu_identity_memory_bytes", gpu)
        if model is None or reading is None or split(case):
            continue
        known = max(model.memory_bytes, default=0.0)
        more = bool(known) and figure(reading) > 1.05 * known
        if model in case.ordered if model.modded else not more:
            continue  # a modded card that was ordered as one, or a card as it was made
        written = case.view.one("memory_capacity_bytes", gpu)
        there = written is not None and figure(written) > known
        yield case.finding(
            "memory-mod",
            "unproven",
            "reject" if model.modded or there else "review",
            gpu,
            "spec",
            "; ".join(model.sources[:1]),
            {"measured": figure(reading), "model": model.name},
            (reading, *case.view.all("gpu_identity_pci_device", gpu), written),
        )


@rule
def measured_contradicts(case: Case) -> Iterator[Finding]:
    """What the silicon does does not fit what the driver says it is; one figure is for review, two are proof."""
    for gpu, identity in case.identities.items():
        model = identity.model
        against = [c for c in identity.contradictions if c.sign.what in MEASURED]
        if model is None or not against or split(case) or case.machine.level == "software slice":
            continue
        severity: Severity = "reject" if len({c.sign.what for c in against}) >= 2 else "review"
        worst = against[0]
        yield case.finding(
            "figures-contradict-model",
            "unproven",
            severity,
            gpu,
            "contradiction",
            "the catalogue against what was measured (docs/thresholds.md, identity)",
            {
                "model": model.name,
                "what": ", ".join(c.sign.what for c in against),
                "measured": worst.sign.value,
                "expected": worst.expected,
            },
            (
                *(c.sign.key for c in against if isinstance(c.sign.key, Reading)),
                *case.view.all("gpu_identity_name", gpu),
            ),
        )


@rule
def unknown(case: Case) -> Iterator[Finding]:
    """A GPU the catalogue cannot name is measured and compared with its like, and that is said plainly."""
    for gpu, identity in case.identities.items():
        named = list(case.view.all("gpu_identity_name", gpu))
        ids = list(case.view.all("gpu_identity_pci_device", gpu))
        if identity.model is not None or (not named and not ids):
            continue
        suspicious = bool(case.ordered) or any(n >= 8 for n in case.mesh.bonded.values())
        yield case.finding(
            "unknown-name" if suspicious and not identity.nameless else "unknown-model",
            "unproven",
            "review" if suspicious else "info",
            gpu,
            "evidence",
            "the catalogue",
            {"name": str(named[0].value) if named else None, "pci": str(ids[0].value) if ids else None},
            (*named, *ids, case.view.one("gpu_identity_sms_total", gpu)),
        )


@rule
def fake_tools(case: Case) -> Iterator[Finding]:
    """A script in place of nvidia-smi, or a preloaded library between programs and the driver."""
    tool = case.view.one("server_facts_nvidia_smi")
    if tool is not None and tool.value == "script":
        yield case.finding(
            "fake-nvidia-smi", "unproven", "review", "server", "evidence", EVIDENCE, {"what": "nvidia-smi"}, (tool,)
        )
    preload = case.view.one("server_facts_preload")
    library = case.view.one("server_facts_nvml_library")
    caught = preload is not None and any(w in str(preload.value).lower() for w in ("nvml", "nvidia-ml", "libcuda"))
    other = preload is not None and not caught and not SLICE_LIBRARY.search(str(preload.value))
    if preload is not None and other and str(preload.value).strip() not in ("", "none"):
        yield case.finding(
            "preload",
            "unproven",
            "advice",
            "server",
            "evidence",
            EVIDENCE,
            {"preload": str(preload.value)},
            (preload,),
        )
    odd = library is not None and str(library.value).startswith(("/tmp/", "/home/", "/root/", "/var/tmp/", "/dev/shm/"))  # noqa: S108  # where a driver's library never lies
    if caught or odd:
        yield case.finding(
            "fake-nvml",
            "unproven",
            "review",
            "server",
            "evidence",
            EVIDENCE,
            {"preload": str(preload.value) if preload else None, "library": str(library.value) if library else None},
            (preload if caught else None, library),
        )


@rule
def canned(case: Case) -> Iterator[Finding]:
    """Watts and temperature that do not move at all under load are stored numbers."""
    for gpu in case.gpus:
        rows = []
        for metric in ("thermal_watts", "thermal_gpu_celsius"):
            start, most = (case.view.one(metric, gpu, stat=stat) for stat in ("start", "max"))
            if start is None or most is None or figure(start) != figure(most):
                break
            rows += [start, most]
        else:
            rate = case.view.one("thermal_flops_per_second", gpu, window="all")
            seconds = case.view.number("thermal_window_seconds", gpu)
            if rate is not None and (seconds or 0) >= 5:
                yield case.finding(
                    "canned-readings",
                    "unproven",
                    "review",
                    gpu,
                    "contradiction",
                    "a loaded GPU draws more and warms up",
                    {"watts": figure(rows[0]), "celsius": figure(rows[2])},
                    (*rows, rate),
                )


@rule
def within_a_server(case: Case) -> Iterator[Finding]:
    """One UUID on two GPUs, boards of different batches, a damaged InfoROM."""
    owners: dict[str, list[Reading]] = {}
    for reading in case.view.all("gpu_identity_uuid"):
        if told_by(reading.source) == "driver" and isinstance(reading.value, str) and says_something(reading.value):
            owners.setdefault(reading.value, []).append(reading)
    if not split(case):
        for value, rows in owners.items():
            subjects = sorted({r.subject for r in rows})
            if len(subjects) > 1:
                yield _duplicate(case, value, subjects, rows)
    parts = {str(r.value): r for r in case.view.all("gpu_identity_board_part_number")}
    if len(parts) > 1:
        yield case.finding(
            "mixed-batch",
            "unproven",
            "advice",
            "server",
            "siblings",
            EVIDENCE,
            {"parts": ", ".join(sorted(parts))},
            parts.values(),
        )
    for gpu in case.gpus:
        valid = case.view.one("gpu_identity_inforom_valid", gpu)
        if valid is not None and valid.value is False:
            yield case.finding("inforom-corrupt", "degraded", "review", gpu, "evidence", EVIDENCE, {}, (valid,))


def _duplicate(case: Case, value: str, subjects: list[str], rows: list[Reading]) -> Finding:
    return case.finding(
        "duplicate-identity",
        "unproven",
        "reject",
        subjects[0],
        "contradiction",
        EVIDENCE,
        {"value": value, "kind": "UUID", "others": ", ".join(subjects[1:])},
        rows,
    )


@fleet_rule
def across_servers(digest: Digest, fleet: Fleet) -> Iterator[Finding]:
    """The same UUID or serial on two servers at one time: one of them is a clone."""
    told: set[tuple[str, str]] = set()
    for one in digest.identifiers:
        if (one.subject, one.value) in told:
            continue
        elsewhere = (place for place in fleet.owners[one.kind, one.value] if place[0] != digest.server)
        others = [" ".join(place) for place in itertools.islice(elsewhere, 8)]
        if not others:
            continue
        told.add((one.subject, one.value))
        rows = tuple(i.evidence for i in digest.identifiers if i.value == one.value and i.subject == one.subject)
        yield Finding(
            id="duplicate-identity",
            category="unproven",
            severity="reject",
            server=digest.server,
            subject=one.subject,
            basis="fleet",
            source=EVIDENCE,
            parameters={"value": one.value, "kind": one.kind, "others": ", ".join(others)},
            evidence=rows,
        )


_OTHER = ("gpu-wrong-model", "patched-name", "geforce-as-datacenter", "cmp-as-a100")
CAUSES = {
    "patched-name": ("nvml-vs-cuda-disagree", "fake-nvml", "geforce-as-datacenter", "cmp-as-a100"),
    "geforce-as-datacenter": ("fake-nvml",),
    "gpu-wrong-model": ("patched-name", "geforce-as-datacenter", "cmp-as-a100", "memory-mod"),
    "figures-contradict-model": (
        "patched-name",
        "geforce-as-datacenter",
        "cmp-as-a100",
        "memory-mod",
        "shared-gpu",
        "mig-sliced",
    ),
    "nvml-vs-cuda-disagree": ("geforce-as-datacenter", "cmp-as-a100", "fake-nvml"),
    "memory-mod": ("geforce-as-datacenter", "memory-capacity-short"),
    "unknown-name": _OTHER,
    "unknown-model": ("driver-too-old",),
    "canned-readings": ("fake-nvml",),
    "mixed-batch": ("gpu-mixed-models",),
}

TEXTS = {
    "nvml-vs-cuda-disagree": Text(
        N_("Sources disagree about the GPU"),
        N_("{what}: {values}"),
        N_("one answer from all sources"),
        N_("NVML, CUDA, /proc and sysfs describe the same device; where they differ, one of them was changed."),
        N_("{gpu} is described differently by its sources ({values}). Please explain."),
    ),
    "patched-name": Text(
        N_("The GPU's name does not fit the GPU"),
        N_("called {name}; what contradicts it: {what}"),
        N_("a name that fits PCI id, SMs, L2 and memory bus ({looks})"),
        N_("Names can be patched; what the chip has cannot."),
        N_("{gpu} calls itself {name} but has the marks of {looks}. Please explain or refund."),
    ),
    "geforce-as-datacenter": Text(
        N_("A GeForce card under a data-centre name"),
        N_("called {name}; what contradicts it: {what}"),
        N_("the named card; this is {looks}"),
        N_("Consumer cards have less memory bandwidth, no NVLink and a fraction of the FP64 rate."),
        N_("{gpu} calls itself {name} but is {looks}. Please deliver the named card or refund."),
    ),
    "cmp-as-a100": Text(
        N_("A mining card under another name"),
        N_("called {name}, with the PCI id of a CMP card"),
        N_("the named card"),
        N_("CMP cards have little memory, crippled arithmetic and a slow link."),
        N_("{gpu} calls itself {name} but is a CMP mining card. Please deliver the named card or refund."),
    ),
    "memory-mod": Text(
        N_("GPU memory was added later"),
        N_("{measured:GiB} ({model})"),
        N_("the memory this card is made with"),
        N_("The capacity may work; warranty and stability do not come with it."),
        N_("{gpu} carries memory it was not made with. Please deliver an unmodified card or re-price it."),
    ),
    "figures-contradict-model": Text(
        N_("What the GPU does does not fit what it claims to be"),
        N_("{what}: {measured}"),
        N_("{expected} on {model}"),
        N_("Work per clock, cache, bandwidth and FP64 ratio belong to the chip; these belong to another one."),
        N_("{gpu} claims to be {model} but does not behave as one ({what}). Please explain or refund."),
    ),
    "unknown-name": Text(
        N_("Nobody knows a GPU of this name"),
        N_("{name} (PCI id {pci})"),
        N_("a model of the catalogue"),
        N_("Re-labelled boards carry such names. The GPU is measured and compared with its like only."),
        N_("{gpu} calls itself {name} (PCI id {pci}). Please say which product this is."),
    ),
    "unknown-model": Text(
        N_("A model the catalogue does not know"),
        N_("{name} (PCI id {pci})"),
        N_("a model of the catalogue"),
        N_("Measured, and compared with siblings and fleet only: there is no spec to hold it against."),
    ),
    "fake-nvidia-smi": Text(
        N_("nvidia-smi is a script"),
        N_("the program {what} is no executable of the driver"),
        N_("the driver's own program"),
        N_("Scripts that print canned tables exist. Nothing here rests on it; ask why it is there."),
        N_("nvidia-smi on {server} is a script. Please explain."),
    ),
    "fake-nvml": Text(
        N_("A library stands between programs and the driver"),
        N_("preloaded: {preload}; NVML library: {library}"),
        N_("the driver's own library"),
        N_("Everything NVML says here may be made up."),
        N_("A library is preloaded over NVML or CUDA ({preload}). Please remove it and explain."),
    ),
    "preload": Text(
        N_("A library is preloaded into every program"),
        N_("preloaded: {preload}"),
        N_("no preloaded library"),
        N_("It runs inside each program and may change what it sees; allocators and profilers are harmless."),
        N_("A library is preloaded on {server} ({preload}). Please say what it is for."),
    ),
    "canned-readings": Text(
        N_("Watts and temperature do not move under load"),
        N_("{watts:W} and {celsius:°C} before and during the load"),
        N_("values that rise with the load"),
        N_("These are stored numbers, not measurements."),
        N_("{gpu} reports the same watts and temperature at rest and under load. Please explain."),
    ),
    "duplicate-identity": Text(
        N_("The same GPU twice"),
        N_("{kind} {value} also on {others}"),
        N_("one owner per {kind}"),
        N_("One of them is a clone, or one machine was shown twice."),
        N_("The GPU {kind} {value} was seen on {server} and on {others} at one time. Please explain."),
    ),
    "mixed-batch": Text(
        N_("Boards of different batches"),
        N_("part numbers {parts}"),
        N_("one part number"),
        N_("Mixed batches may differ in power limit, firmware and cooling."),
    ),
    "inforom-corrupt": Text(
        N_("The GPU's InfoROM is damaged"),
        N_("its check fails"),
        N_("a valid InfoROM"),
        N_("The board's own records (serial, ECC history) cannot be trusted."),
        N_("The InfoROM of {gpu} is corrupt. Please replace the card."),
    ),
}
