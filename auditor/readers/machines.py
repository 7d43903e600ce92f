"""Which outputs are of one machine, and its record: readings of every output under one set of GPUs.

Outputs belong together when a host name, a GPU's UUID or the folder they lie in says so and nothing contradicts.
A GPU is one and the same by UUID, else by PCI address, else by index: so a log that knows only addresses finds its GPU.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from auditor.readers.parsed import Parsed, Unreadable, key_of
from auditor.records import Reading, Record, Seconds, Subject, Tool, Value

_STATIC = re.compile(
    r"gpu_identity_(?:name|uuid|serial|pci_device|memory_bytes|sms_total|l2_bytes|minor|vbios)$"
    r"|topology_(?:path|cpu_affinity)$|server_facts_(?:driver_version|cpu_model|cpus_total|gpus_\w+_total)$"
    r"|server_facts_(?:architecture|sockets_total|numa_nodes_total|dmi)$"
)
NOTHING = Parsed()
EMPTY = Parsed(unreadable=(Unreadable(1, "there is no text in it"),))
_PARTS = re.compile(r"([-/])")


@dataclass(frozen=True)
class Output:
    """One section that was read: where it stood, whose it is, what it says."""

    file: str
    folder: str
    kind: str
    host: str | None
    parsed: Parsed


@dataclass
class Machine:
    """Outputs of one machine, and what they say that cannot change from one look to the next."""

    outputs: list[Output] = field(default_factory=list)
    host: str | None = None
    uuids: set[str] = field(default_factory=set)
    facts: dict[tuple[object, ...], Value] = field(default_factory=dict)

    def add(self, output: Output) -> None:
        """Take an output in."""
        self.outputs.append(output)
        self.host = self.host or output.host
        self.uuids |= uuids(output)
        self.facts.update(facts(output))

    def contradicts(self, other: Machine) -> bool:
        """True when the two cannot be one machine."""
        if self.host and other.host:
            return self.host != other.host
        small, large = sorted((self.facts, other.facts), key=len)
        return any(key in large and large[key] != value for key, value in small.items())


def uuids(output: Output) -> set[str]:
    """The GPUs' UUIDs; the all-zero one of redacted texts is nobody's."""
    found = {subject.uuid for subject in output.parsed.subjects if subject.uuid and subject.uuid.startswith("GPU-")}
    return {uuid for uuid in found if uuid and set(uuid[4:]) - set("0-")}


def facts(output: Output) -> dict[tuple[object, ...], Value]:
    """What an output says that holds for the machine's life, by source, so that two outputs can contradict."""
    found: dict[tuple[object, ...], Value] = {}
    for reading in output.parsed.readings:
        if _STATIC.match(reading.metric):
            value = reading.value
            if reading.metric == "gpu_identity_name":
                value = str(value).removeprefix("NVIDIA ")
            found[key_of(reading.metric, reading.subject, reading.source, reading.conditions)] = value
    for subject in output.parsed.subjects:
        if subject.kind == "gpu" and subject.pci and subject.index is not None and output.kind.startswith("smi"):
            found["pci", subject.id] = subject.pci
    return found


def machines(outputs: Iterable[Output], together: bool = True, one: bool = False) -> list[Machine]:
    """The machines behind the outputs; `one` says that all are of one, `together` that files may be joined."""
    if one:
        only = Machine()
        for output in outputs:
            only.add(output)
        return [only] if only.outputs else []
    by_file: dict[str, list[Machine]] = {}
    folders: dict[str, str] = {}
    for output in outputs:
        _into(by_file.setdefault(output.file, []), output)
        folders[output.file] = output.folder
    if not together:
        return [machine for found in by_file.values() for machine in found]
    by_folder: dict[str, list[Machine]] = {}
    for file, found in by_file.items():
        by_folder.setdefault(folders[file], []).extend(found)
    joined = [machine for found in by_folder.values() for machine in _of_folder(found)]
    return _linked(joined)


def _into(found: list[Machine], output: Output) -> None:
    """Put an output of a file to the machine it continues: the named one, else the last it does not contradict."""
    alone = Machine()
    alone.add(output)
    named = [machine for machine in found if output.host and machine.host == output.host]
    if named:
        named[-1].add(output)
    elif found and not found[-1].contradicts(alone) and (found[-1].host is None or output.host is None):
        found[-1].add(output)
    else:
        found.append(alone)


def _of_folder(found: list[Machine]) -> list[Machine]:
    """The files of one folder are one machine's when nothing in the whole folder contradicts; else each is its own."""
    merged = Machine()
    kinds: dict[str, str] = {}
    for machine in found:
        again = any(kinds.get(output.kind, output.file) != output.file for output in machine.outputs)
        if merged.outputs and (merged.contradicts(machine) or (again and not merged.uuids & machine.uuids)):
            return found
        for output in machine.outputs:
            merged.add(output)
            kinds[output.kind] = output.file
    return [merged]


def _linked(found: list[Machine]) -> list[Machine]:
    """Join machines that name one host or show one GPU's UUID."""
    out: list[Machine] = []
    known: dict[str, Machine] = {}
    for machine in found:
        keys = [f"host {machine.host}"] if machine.host else []
        keys += sorted(machine.uuids)
        home = next((known[key] for key in keys if key in known and not known[key].contradicts(machine)), None)
        if home is None:
            home = Machine()
            out.append(home)
        for output in machine.outputs:
            home.add(output)
        for key in keys:
            known.setdefault(key, home)
    return out


def record(machine: Machine, name: str, version: str, started: str) -> Record:
    """The machine's record, as the probe would have sent it had it been able to look no further."""
    subjects: dict[str, Subject] = {}
    readings: dict[tuple[object, ...], Reading] = {}
    ordered = sorted(machine.outputs, key=lambda output: not output.kind.startswith("smi"))
    names = {id(output): _names(output.parsed, subjects) for output in ordered}
    known = any(subject.index is not None and subject.pci for subject in subjects.values())
    for output in machine.outputs:
        own = names[id(output)]
        same = all(before == now for before, now in own.items())
        for reading in output.parsed.readings:
            one = reading if same and not reading.subject.startswith("gpu:") else _placed(reading, own, known)
            readings[key_of(one.metric, one.subject, one.source, one.conditions)] = one
    kept = [s for s in subjects.values() if not (known and s.id.startswith("gpu:"))]
    return Record(
        schema=1,
        tool=Tool("auditor triage", version),
        run="triage",
        server=name,
        profile="quick",
        device="cuda",
        started=started,
        seconds=Seconds(0.0, 0.0, 0.0),
        subjects=(Subject(id="server", kind="server"), *sorted(kept, key=_place)),
        readings=tuple(readings.values()),
    )


def _placed(reading: Reading, names: dict[str, str], known: bool) -> Reading:
    """The reading about the record's subjects; an address of none of the known GPUs stays beside the server."""
    subject, conditions = renamed(reading.subject, names), reading.conditions
    if "from" in conditions:
        conditions = {**conditions, "from": renamed(str(conditions["from"]), names)}
    if known and subject.startswith("gpu:"):
        subject, conditions = "server", {**conditions, "pci": subject[4:]}
    if subject == reading.subject and conditions == reading.conditions:
        return reading
    return dataclasses.replace(reading, subject=subject, conditions=conditions)


def _place(subject: Subject) -> tuple[str, int, str]:
    return subject.kind, subject.index if subject.index is not None else 1 << 30, subject.id


def _names(parsed: Parsed, subjects: dict[str, Subject]) -> dict[str, str]:
    """The name each subject of an output has in the record; `subjects` grows by those that are new."""
    names: dict[str, str] = {}
    for own in parsed.subjects:
        if own.kind != "gpu":
            continue
        same = _same(own, subjects)
        if same is None:
            taken = subjects.get(own.id)
            same = own.id if taken is None or not _differ(taken, own) else f"gpu:{own.pci or own.uuid}"
        names[own.id] = same
        before = subjects.get(same)
        subjects[same] = Subject(
            id=same,
            kind="gpu",
            index=int(same[3:]) if same[3:].isdigit() else None,
            uuid=own.uuid or (before.uuid if before else None),
            pci=own.pci or (before.pci if before else None),
        )
    for own in parsed.subjects:
        if own.kind != "gpu":
            found = renamed(own.id, names)
            subjects.setdefault(found, dataclasses.replace(own, id=found))
    return names


def _same(own: Subject, subjects: dict[str, Subject]) -> str | None:
    """The GPU already known that this one is, by UUID or address."""
    for subject in subjects.values():
        if own.pci and subject.pci == own.pci:
            return subject.id
        if own.uuid and own.uuid == subject.uuid and set(own.uuid[4:]) - set("0-"):
            return subject.id
    return None


def _differ(one: Subject, other: Subject) -> bool:
    return bool(one.pci and other.pci and one.pci != other.pci)


def renamed(subject: str, names: dict[str, str]) -> str:
    """A subject under other names of its parts: `gpu0-gpu1`, `gpu0/link3`; a pair keeps the lower index first."""
    if subject in names:
        return names[subject]
    if "-" not in subject and "/" not in subject:
        return subject
    parts = _PARTS.split(subject)
    parts = [names.get(part, part) for part in parts]
    if len(parts) == 3 and parts[1] == "-" and parts[0][:3] == parts[2][:3] == "gpu":
        first, last = sorted((parts[0], parts[2]), key=lambda one: (len(one), one))
        return f"{first}-{last}"
    return "".join(parts)
