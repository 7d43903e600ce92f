"""`dmesg`, the journal's kernel lines, /dev/kmsg: Xids, SXids, GPUs off the bus; whatever stands before the message.

The `Data` line of an SXid belongs to the event before it. A GPU can be lost without the word Xid, over three lines.
Lines below `# lines below: during the audit` (the probe's own mark) came while it worked; all else is history.
One fault prints dozens of lines (Xid 94 once a channel): the same number of the same device within one minute is
one event.
"""

from __future__ import annotations

import re
from collections import Counter

from auditor.readers import smi_fields
from auditor.readers.parsed import Book, Parsed, pci_address, shown
from auditor.records import Condition, Subject

KIND = "kernel_log"
TOOL = "dmesg"
HINTS = ("NVRM", "Xid", "[", "kern", "T", ";")
_STAMP = (
    r"(?:<\d{1,3}>[ \t]*)?(?:\[[ \t]*\d{1,9}\.\d{3,9}\]"
    r"|\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\]"
    r"|\d{1,3},\d+,\d+,[-c+][^;\n]{0,40};"
    r"|[a-z]+[ \t]*:[a-z]+[ \t]*:"
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [\w.-]+ kernel:"
    r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[,.]?\d*(?:[+-]\d\d:?\d\d|Z)?[ \t]+(?:[\w.-]+ )?(?:kernel:|NVRM|nvidia|\S))"
)
MARK = "# lines below: during the audit"
BEGINS = re.compile(rf"^(?:{MARK}|[ \t]*+{_STAMP})", re.M)
WITHIN = re.compile(r"NVRM: |SXid \(PCI")
_STAMPED = re.compile(rf"[ \t]*+{_STAMP}")
_LONGEST = 4096
_MINUTE = re.compile(
    r"\[[ \t]*(?P<seconds>\d{1,9})\.\d{3,9}\]|^\d{1,3},\d+,(?P<micro>\d+),"
    r"|(?P<clock>(?:\d{4}-\d\d-\d\dT|[A-Z][a-z]{2} [ \d]\d )\d\d:\d\d)"
)
_ADDRESS = r"(?:PCI:)?([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)"
_XID = re.compile(rf"\bXid \({_ADDRESS}\): *(\d{{1,4}}), *(.*)$")
_SXID = re.compile(rf"\bSXid \({_ADDRESS}\): *(\d{{4,6}}), *(Non-fatal|Fatal|Data)?", re.I)
_OFF_BUS = re.compile(rf"(?:GPU at {_ADDRESS}|GPU {_ADDRESS}|GPU)[^\n]{{0,40}}has fallen off the bus", re.I)
_OFF_BUS_HEAD = re.compile(rf"NVRM: The NVIDIA GPU {_ADDRESS}")
_OFF_BUS_TAIL = re.compile(r"NVRM: fallen off the bus")
_ACTION = re.compile(r"to 0x[0-9a-fA-F]+ \(([^)]*)\)")
_LINK_EVENT = re.compile(r"\b(Nonfatal|Non-fatal|Fatal)\b", re.I)
_OFF = "fallen_off_bus"
_EVENTS = (
    ("driver_mismatch", re.compile(r"NVRM: API mismatch", re.I)),
    ("pcie_error", re.compile(r"(?:pcieport|AER:).*(?:Uncorrected|Fatal).*error", re.I)),
    ("machine_check", re.compile(r"\[Hardware Error\]|mce: .*Machine check", re.I)),
    ("out_of_memory", re.compile(r"Out of memory: Killed process", re.I)),
    ("rm_init_failed", re.compile(r"NVRM: .*(?:RmInitAdapter failed|rm_init_adapter failed)", re.I)),
)
_HYPERVISOR = re.compile(r"\bHypervisor detected: (\S.*?)[ \t]*$")
_DMI = re.compile(r"\bDMI: (\S[^\n]{0,100}?)(?:/|, BIOS)")
_recovery = smi_fields.words(
    none="none",
    gpureset="gpu_reset",
    gpuresetrequired="gpu_reset",
    noderebootrequired="node_reboot",
    nodereboot="node_reboot",
    drainp2p="drain_p2p",
    drainandreset="drain_and_reset",
    recoverimex="recover_imex",
    busreset="bus_reset",
    systemreboot="system_reboot",
)


def recognise(text: str) -> float:
    """Messages of the NVIDIA driver, or time stamps of a kernel log."""
    if re.search(r"NVRM: |\bS?Xid \(", text):
        return 0.9
    return 0.5 if BEGINS.search(text) else 0.0


def read(text: str) -> Parsed:
    """Events counted by GPU (or switch), number and time; one line kept of each that has no number."""
    book = Book(KIND, TOOL)
    counts: Counter[tuple[str, str, tuple[tuple[str, Condition], ...]]] = Counter()
    seen: set[tuple[object, ...]] = set()

    def count(line: str, metric: str, subject: str, device: str, conditions: tuple[tuple[str, Condition], ...]) -> None:
        event = (metric, device, conditions, _minute(line))
        counts[metric, subject, conditions] += event not in seen
        seen.add(event)

    actions: dict[tuple[str, str], str] = {}
    when, lost, stamped = "history", None, bool(BEGINS.search(text))
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        line = line[:_LONGEST]
        if line.startswith(MARK):
            when = "audit"
            continue
        xid, sxid = _XID.search(line), _SXID.search(line)
        if xid:
            subject = _gpu(book, xid[1])
            with_ = _conditions(xid, when)
            if xid[2] == "154":
                action = _ACTION.search(xid[3])
                word = _recovery(action[1]) if action else None
                if isinstance(word, str):
                    actions[subject, when] = word
            count(line, "kernel_log_xid_total", subject, subject, tuple(with_.items()))
        elif sxid:
            if (sxid[3] or "").lower() in ("fatal", "non-fatal"):
                fatal = sxid[3].lower() == "fatal"
                key: tuple[tuple[str, Condition], ...] = (("sxid", int(sxid[2])), ("fatal", fatal), ("when", when))
                count(line, "kernel_log_sxid_total", "server", sxid[1], key)
        elif off := _OFF_BUS.search(line):
            address = off[1] or off[2]
            book.add(
                "kernel_log_event", line.strip(), _gpu(book, address) if address else "server", kind=_OFF, when=when
            )
        elif head := _OFF_BUS_HEAD.search(line):
            lost = (head[1], line.strip())
        elif lost and _OFF_BUS_TAIL.search(line):
            book.add("kernel_log_event", line.strip(), _gpu(book, lost[0]), kind=_OFF, when=when)
            lost = None
        else:
            _other(book, line, when)
            if stamped and "NVRM" not in line and not _STAMPED.match(line) and not line.startswith((" ", "\t")):
                book.unreadable(number, f"no line of a kernel log: {shown(line)}")
    for (metric, subject, conditions), total in counts.items():
        with_ = dict(conditions)
        if with_.get("xid") == 154 and (subject, str(with_["when"])) in actions:
            with_["action"] = actions[subject, str(with_["when"])]
        book.add(metric, total, subject, **with_)
    return book.parsed()


def _minute(line: str) -> str:
    """The minute a line was written in; lines without a stamp are of one minute."""
    stamp = _MINUTE.search(line)
    if stamp is None:
        return ""
    if stamp["clock"]:
        return stamp["clock"]
    return str(int(stamp["seconds"]) // 60 if stamp["seconds"] else int(stamp["micro"]) // 60_000_000)


def _conditions(xid: re.Match[str], when: str) -> dict[str, Condition]:
    with_: dict[str, Condition] = {"xid": int(xid[2]), "when": when}
    if 144 <= int(xid[2]) <= 150:
        event = _LINK_EVENT.search(xid[3])
        if event:
            with_["fatal"] = event[1].lower() == "fatal"
    return with_


def _other(book: Book, line: str, when: str) -> None:
    for kind, pattern in _EVENTS:
        if pattern.search(line):
            book.add("kernel_log_event", line.strip(), kind=kind, when=when)
    hypervisor = _HYPERVISOR.search(line)
    if hypervisor:
        book.add("server_facts_cpuid_vendor", hypervisor[1])
    maker = _DMI.search(line)
    if maker:
        book.add("server_facts_dmi", maker[1], field="product_name")


def _gpu(book: Book, address: str) -> str:
    known = pci_address(address) or address.lower()
    return book.subject(Subject(id=f"gpu:{known}", kind="gpu", pci=known))
