"""What kind of machine was delivered: bare metal, guest, vGPU, slice, container, sandbox, remote API.

Virtualized is not bad: a guest with full speed and no bare-metal order is a description. It becomes a complaint when
bare metal was ordered. Weights and levels: `auditor.judge.signs`, docs/thresholds.md.
"""

from __future__ import annotations

from collections.abc import Iterator

from auditor.finding import Finding, Severity
from auditor.judge import signs
from auditor.judge.case import Case
from auditor.judge.figures import figure
from auditor.judge.rule import rule
from auditor.judge.signs import Machine
from auditor.judge.texts import N_, Text

SOURCE = "several weighted signs of CPU, firmware, PCI bus and driver (docs/thresholds.md)"


@rule
def virtualized(case: Case) -> Iterator[Finding]:
    """One finding for all signs of virtualization, with the level; reject only against a bare-metal order.

    Without one it describes the machine and asks for nothing.
    """
    if case.view.record is None:
        return
    found = case.machine
    if found.level in (signs.BARE, signs.METAL, signs.UNKNOWN):
        return
    metal = case.order is not None and case.order.bare_metal is True
    yield case.finding(
        "virtualized",
        "virtualized",
        _severity(found, metal),
        "server",
        "order" if metal else "evidence",
        "the order" if metal else SOURCE,
        {
            "level": found.level,
            "kind": found.kind or _unnamed(found),
            "variant": _variant(case, found, metal),
            "signs": ", ".join(dict.fromkeys(sign.word for sign in found.signs)),
            "telling": ", ".join(list(dict.fromkeys(sign.word for sign in found.signs))[:3]),
            "count": len(found.signs),
            "weight": found.weight,
            "families": len(found.families),
            "ordered": _ordered(case),
        },
        [sign.reading for sign in found.signs],
    )


@rule
def level(case: Case) -> Iterator[Finding]:
    """Says that a server is bare metal, when everything that was read speaks for it."""
    if case.view.record is None:
        return
    found = case.machine
    if found.level in (signs.BARE, signs.METAL):
        flag = case.view.one("server_facts_hypervisor_flag")
        mode = next((case.view.one("gpu_identity_virtualization_mode", gpu) for gpu in case.gpus), None)
        yield case.finding(
            "bare-metal", "virtualized", "info", "server", "evidence", SOURCE, {"level": found.level}, (flag, mode)
        )


@rule
def hidden_hypervisor(case: Case) -> Iterator[Finding]:
    """NVML and CPUID deny a hypervisor that paravirtual devices or clocks betray: it is hidden on purpose."""
    flag = case.view.one("server_facts_hypervisor_flag")
    if flag is None or flag.value is not False:
        return
    betraying = [s for s in signs.guest_signs(case.view) if s.weight >= case.lines.sign_strong.value]
    mode = next((case.view.one("gpu_identity_virtualization_mode", gpu) for gpu in case.gpus), None)
    if betraying and (mode is None or mode.value == "none"):
        yield case.finding(
            "hypervisor-hidden",
            "unproven",
            "review",
            "server",
            "contradiction",
            "CPUID against devices and clocks that only guests have",
            {"signs": ", ".join(dict.fromkeys(sign.word for sign in betraying))},
            (flag, mode, *(sign.reading for sign in betraying)),
        )


_VGPU = ("gpu_identity_virtualization_mode", "gpu_identity_name")


@rule
def vgpu(case: Case) -> Iterator[Finding]:
    """A vGPU is a time slice of a card, also when its profile has the whole memory."""
    found = case.machine
    if found.level != signs.VGPU:
        return
    driver = [s.reading for s in found.signs if s.reading.metric in _VGPU]
    measured = []
    for gpu in case.gpus:
        model, written = case.identities[gpu].model, case.view.one("memory_capacity_bytes", gpu)
        if model and model.memory_bytes and written is not None:
            sliced = figure(written) < case.lines.capacity_short.value * min(model.memory_bytes)
            measured += [written] if sliced else []
    yield case.finding(
        "vgpu-grid",
        "misallocated",
        "reject" if case.order is not None and case.order.gpus else "review",
        "server",
        "order" if case.order else "evidence",
        "the order" if case.order else SOURCE,
        {"profile": next((str(r.value) for r in driver if r.metric == "gpu_identity_name"), None)},
        (*driver, *measured),
    )


@rule
def vgpu_host(case: Case) -> Iterator[Finding]:
    """The host's own vGPU manager runs here: others may hold parts of these GPUs."""
    hosts = [r for r in case.view.all("gpu_identity_virtualization_mode") if r.value in ("host_vgpu", "host_vsga")]
    if hosts:
        yield case.finding(
            "vgpu-host-mode",
            "virtualized",
            "advice",
            "server",
            "evidence",
            "NVML reference: virtualization mode",
            {"count": len(hosts)},
            hosts,
        )


@rule
def software_slice(case: Case) -> Iterator[Finding]:
    """A library between program and driver hands out a part of the GPU."""
    if case.machine.level != signs.SLICE:
        return
    named = [sign.reading for sign in case.machine.signs if sign.word == "software slice"]
    found = named[0] if named else None
    short = []
    for gpu in case.gpus:
        model, memory = case.identities[gpu].model, case.view.one("gpu_identity_memory_bytes", gpu)
        if model and model.memory_bytes and memory and isinstance(memory.value, (int, float)):
            short += [memory] if memory.value < case.lines.memory_short.value * min(model.memory_bytes) else []
    yield case.finding(
        "software-slice",
        "misallocated",
        "reject" if case.order is not None and case.order.gpus else "review",
        "server",
        "order" if case.order else "evidence",
        "the order" if case.order else SOURCE,
        {"signs": str(found.value) if found else None},
        (found, *short),
    )


@rule
def api_remoting(case: Case) -> Iterator[Finding]:
    """CUDA answers, but neither the bus nor a device node holds a GPU: it stands somewhere else."""
    found = case.machine
    if found.level != signs.REMOTE:
        return
    launch = [case.view.one("latency_launch_seconds", gpu, stat="p50") for gpu in case.gpus]
    yield case.finding(
        "api-remoting",
        "misallocated",
        "reject",
        "server",
        "evidence",
        SOURCE,
        {"gpus": case.view.number("server_facts_gpus_cuda_total")},
        (*(sign.reading for sign in found.signs), *launch),
    )


@rule
def numa_hidden(case: Case) -> Iterator[Finding]:
    """GPUs without a NUMA node: memory of two sockets is blended and nobody can pin to the near one.

    On a board of two sockets whose copies nobody measured (a pasted matrix) it is for review: the loss is open.
    """
    hidden = [
        reading
        for gpu in case.gpus
        if (reading := case.view.one("gpu_identity_numa_node", gpu) or case.view.one("topology_numa_node", gpu))
        and reading.value == -1
    ]
    hidden += [r for r in case.view.unreadable if r.metric == "topology_numa_node" and r.subject in case.gpus]
    board = case.text_only and signs.meshed(case.view) and not case.view.has("host_copy_bytes_per_second")
    if board and not hidden and signs.one_node(case.view):
        hidden = [r for gpu in case.gpus if (r := case.view.one("topology_numa_node", gpu))]
    nodes = case.view.number("server_facts_numa_nodes_total")
    sockets = case.view.number("server_facts_sockets_total")
    if not hidden or (nodes == 1 and sockets == 1 and not _guest(case)):
        return
    yield case.finding(
        "numa-hidden",
        "virtualized",
        "review" if board else "advice",
        "server",
        "evidence",
        "the GPU's NUMA node (sysfs)",
        {"count": len(hidden), "nodes": nodes},
        (*hidden, case.view.one("server_facts_numa_nodes_total")),
    )


def _guest(case: Case) -> bool:
    return case.machine.level not in (signs.BARE, signs.METAL, signs.UNKNOWN, signs.CONTAINER)


def _ordered(case: Case) -> str:
    wanted = case.order.bare_metal if case.order else None
    return {True: N_("bare metal"), False: N_("a virtual machine"), None: N_("no bare metal was ordered")}[wanted]


def _unnamed(found: Machine) -> str:
    """What stands where no maker is named."""
    return N_("a hypervisor without a name") if found.level in (signs.GUEST, signs.UNCLEAR) else found.level


def _variant(case: Case, found: Machine, metal: bool) -> str | None:
    """How it is told: a complaint (None) only against an order; from pasted text alone a guest is a guess."""
    guessed = case.text_only and found.kind is None and found.level in (signs.GUEST, signs.UNCLEAR)
    if guessed:
        return "guessed-ordered" if metal else "guessed"
    return None if metal else "described"


def _severity(found: Machine, metal: bool) -> Severity:
    if not metal:
        return "advice"
    return "reject" if len(found.families) >= 2 and found.level != signs.UNCLEAR else "review"


CAUSES = {
    "numa-hidden": ("virtualized",),
    "virtualized": ("vgpu-grid", "software-slice", "api-remoting"),
    "hypervisor-hidden": ("virtualized",),
}

_DESCRIBED = N_(
    "A description, not a fault: a guest may be as fast as bare metal. There is nothing to ask, unless bare metal "
    "was agreed."
)
_GUESSED = N_("signs in the pasted text ({count:int}): {signs}")

TEXTS = {
    "virtualized": Text(
        N_("Not bare metal: {level}"),
        N_("{level} ({kind}); signs ({count:int}): {signs}; independent sources: {families:int}"),
        N_("{ordered}"),
        N_(
            "The machine is shared with a hypervisor or a container runtime. Full speed is possible, "
            "but what it hides (NVLink, NUMA, PCIe paths) costs collectives most."
        ),
        N_(
            "The host reports {kind} ({telling}). Please move the order to bare metal or confirm in writing "
            "that a {level} was sold."
        ),
        {
            "described": Text(
                N_("Machine: {level}"),
                N_("{level} ({kind}); signs ({count:int}): {signs}; independent sources: {families:int}"),
                N_("{ordered}"),
                _DESCRIBED,
            ),
            "guessed": Text(N_("Machine: looks like a guest"), _GUESSED, N_("{ordered}"), _DESCRIBED),
            "guessed-ordered": Text(
                N_("Not bare metal: looks like a guest"),
                _GUESSED,
                N_("{ordered}"),
                N_("Text alone proves no virtual machine; an audit on the server itself tells."),
                N_(
                    "The text looks like that of a virtual machine ({signs}). Please confirm that bare metal was "
                    "delivered."
                ),
            ),
        },
    ),
    "bare-metal": Text(
        N_("{level}"),
        N_("no sign of a hypervisor"),
        N_("{level}"),
        N_("Nothing that was read speaks for a virtual machine. A guest that hides itself well cannot be excluded."),
    ),
    "hypervisor-hidden": Text(
        N_("A hypervisor is hidden"),
        N_("CPUID denies a hypervisor, yet: {signs}"),
        N_("sources that agree"),
        N_("Somebody took care that programs do not see the virtual machine."),
        N_("The machine hides a hypervisor ({signs}). Please say what was sold."),
    ),
    "vgpu-host-mode": Text(
        N_("The GPUs are set up to be shared out"),
        N_("the driver runs as a host of virtual GPUs (GPUs: {count:int})"),
        N_("a driver without a vGPU manager"),
        N_("This is the host itself, but its GPUs can be given to virtual machines of others at any time."),
        N_("The driver runs in vGPU host mode. Please install the plain driver or confirm that nobody else is served."),
    ),
    "vgpu-grid": Text(
        N_("A vGPU instead of a GPU"),
        N_("profile {profile}"),
        N_("whole GPUs"),
        N_("A vGPU shares the engine with other tenants by time slices, whatever its memory."),
        N_("The GPU is a vGPU profile ({profile}). Please deliver the whole GPU in exclusive mode."),
    ),
    "software-slice": Text(
        N_("A software slice of a GPU"),
        N_("{signs}"),
        N_("whole GPUs"),
        N_("A library limits memory and computing time per tenant; others use the rest of the card."),
        N_("The GPU is handed out by a slicing library ({signs}). Please deliver the whole GPU in exclusive mode."),
    ),
    "api-remoting": Text(
        N_("The GPU is somewhere else"),
        N_("GPUs by CUDA: {gpus:int}; by the PCI bus and /dev: none"),
        N_("GPUs in this machine"),
        N_("Every call crosses a network; latency and bandwidth are the network's."),
        N_("The GPUs are reached over a network (API remoting). Please deliver GPUs in the machine itself."),
    ),
    "numa-hidden": Text(
        N_("NUMA is hidden"),
        N_("GPUs without a NUMA node: {count:int} (nodes visible: {nodes:int})"),
        N_("a NUMA node for every GPU"),
        N_(
            "The server does not say which processors and memory are near which GPU: memory of two sockets is blended, "
            "host copies vary by core, and pinning is impossible."
        ),
        N_(
            "Please expose NUMA with CPUs and memory pinned per socket, keep GPU and network card under one "
            "virtual switch, or send the NCCL topology file."
        ),
    ),
}
