"""One pasted file to sections: outputs of tools one after another, prompts and banners between them, several hosts.

A section begins where a reader's `BEGINS` says so, or at a prompt; its kind is decided by its content. What belongs
to no tool is a section without a reader, so that it can be listed.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from dataclasses import dataclass

from auditor.readers.kinds import Reader, readers, surest
from auditor.readers.parsed import Parsed, Unreadable, shown

_HOST = r"[A-Za-z0-9](?:[\w-]*[A-Za-z0-9])?(?:\.[\w-]+)*"
_TOOLS = (
    r"(?:sudo|nvidia-smi|dmesg|lspci|lscpu|dcgmi|cat|journalctl|dmidecode(?! \d)|nvbandwidth|hostname|head|tail|grep"
    r"|\./|/)"
)
PROMPT = re.compile(
    r"^[ \t]*(?:\([\w.-]+\)[ \t]*)?"
    rf"(?:\[?[\w.-]+@(?P<host>{_HOST})(?:[: ][^\n$#%>]{{0,120}})?\]?[ \t]*[$#%>]+[ \t]*(?P<a>[^\n]*)"
    rf"|[┌╭]-+[^\n@㉿]{{0,40}}?[\w.-]+[@㉿](?P<upper>{_HOST})[^\n]{{0,80}}"
    r"|[\\╰]-+[^\n]{0,4}[$#%>❯❱][ \t]*(?P<d>[^\n]*)"
    rf"|[➜❯❱➤λ»][^\n]{{0,80}}?(?P<e>{_TOOLS}[^\n]*)"
    rf"|(?:PS )?[A-Za-z]:\\[^\n>]{{0,120}}>[ \t]*(?P<b>[^\n]*)"
    rf"|[$#%>+][ \t]+(?P<c>{_TOOLS}[^\n]*))$",
    re.M,
)
_NUMBERED = (
    r"(?:(?i:server|machine|host|node|instance|box|vm)[ \t#:]{1,3}|(?:机器|服务器|主机|节点)[ \t#:]{0,3})"
    r"(?:[\w-]{0,20}\d|[A-Za-z]|[一二三四五六七八九十]+)"
    r"|第[ \t]?[一二三四五六七八九十\d]+[ \t]?[台个号](?:机器|服务器|主机|节点)?"
)
_BANNER = re.compile(
    r"^[ \t]*+(?:==>[ \t]*(?P<file>[^\n]{1,80}?)[ \t]*<=="
    rf"|(?P<mark>[=#*-])(?P=mark){{1,60}}[ \t]*(?P<host>{_HOST}):?[ \t]*(?P=mark){{2,60}}"
    rf"|(?P<ansible>{_HOST}) \| (?:CHANGED|SUCCESS|FAILED!?|UNREACHABLE!?)(?: \| rc=\d+)?[ \t]*(?:>>|=> ?\{{?)"
    r"|-{5,}[ \t]*\n(?P<clush>[A-Za-z][\w.,\[\]-]*)(?: \(\d+\))?[ \t]*\n-{5,}"
    rf"|Every \d+(?:\.\d+)?s: [^\n]{{1,200}}?[ \t](?P<watch>{_HOST}): [^\n]{{8,60}}\d"
    rf"|[#*=-]*+[ \t]*+(?P<words>{_NUMBERED})[ \t]*+[:.]?[ \t]*+[#*=-]*+)[ \t]*+$",
    re.M,
)
_NO_HOST = re.compile(r"(?i)(?:gpu|nic|cuda|numa|nvlink|link)\d*$|nccl[\w-]*$|[^0-9]+$|\d+$")
_NOISE = re.compile(
    r"[ \t]*(?:```\w*|~~~\w*|[=_*#.~+|-]{3,}|# ?\(exit code:? ?\d+\)|--More--.*|\(END\)|\.\.\.|…"
    r"|Script (?:started|done)\b.*|exit|logout|Last login: .*|Connection to \S{1,80} closed\.)?[ \t]*$"
)
_PREFIXED = re.compile(rf"({_HOST}):(?: (.*))?$")
_NO_PREFIX = re.compile(r"(?i)(?:NVRM|kern\w*|nvidia\S*|error|warn\w*|info|note|gpu\S*|nic\S*|\d+|\d{4}-\d\d-\d\dt.*)$")
_FEW_HOSTS = 256


@dataclass(frozen=True)
class Section:
    """One output: whose (None: of no tool that is known), its text, the line it begins on, the host if one is named."""

    reader: Reader | None
    text: str
    line: int
    host: str | None
    numbers: tuple[int, ...] | None = None

    def in_file(self, line: int) -> int:
        """The number in the file of a line of this section (1 is its first)."""
        place = self.line + line - 1
        return self.numbers[min(place, len(self.numbers)) - 1] if self.numbers else place


def sections(text: str) -> list[Section]:
    """The sections of a cleaned text, in order; blank and ornamental stretches are left out."""
    found: list[Section] = []
    for host, part, numbers in _by_host(text):
        found += [dataclasses.replace(one, numbers=numbers) if numbers else one for one in _sections(part, host)]
    return found


def read(section: Section) -> Parsed:
    """What a section says; its unreadable lines are numbered as in the file, prompts are understood."""
    if section.reader is None:
        return Parsed(unreadable=_stranger(section))
    parsed = section.reader.read(section.text)
    lines = section.text.split("\n")
    kept = tuple(
        Unreadable(section.in_file(one.line), one.why)
        for one in parsed.unreadable
        if not 0 < one.line <= len(lines) or not _understood(lines[one.line - 1])
    )
    return Parsed(parsed.readings, parsed.subjects, kept)


def _understood(line: str) -> bool:
    return bool(_NOISE.match(line) or PROMPT.match(line) or _BANNER.match(line))


def _stranger(section: Section) -> tuple[Unreadable, ...]:
    lines = [(number, line) for number, line in enumerate(section.text.split("\n")) if not _understood(line)]
    if not lines:
        return ()
    first, words = lines[0]
    more = f" and {len(lines) - 1} more lines" if len(lines) > 1 else ""
    return (Unreadable(section.in_file(first + 1), f"not the output of a tool that is known: {shown(words)}{more}"),)


def _by_host(text: str) -> Iterator[tuple[str | None, str, tuple[int, ...] | None]]:
    """The text of each host where every line carries its host's name (pdsh, clush, ansible); else the whole text."""
    lines = text.split("\n")
    filled = [line for line in lines if line.strip()]
    heads = [_PREFIXED.match(line) for line in filled[:40]]
    named = [head for head in heads if head and not _NO_PREFIX.match(head[1])]
    parts: dict[str, list[tuple[int, str]]] = {}
    if len(filled) >= 4 and len(named) * 10 >= len(heads) * 9:
        for number, line in enumerate(lines, 1):
            match = _PREFIXED.match(line)
            if match:
                parts.setdefault(match[1], []).append((number, match[2] or ""))
    if not parts or len(parts) > _FEW_HOSTS or len(parts) * 3 > len(filled):
        yield None, text, None
        return
    for host, own in parts.items():
        yield host, "\n".join(line for _, line in own), tuple(number for number, _ in own)


@dataclass
class _Mark:
    at: int
    readers: list[Reader]
    host: str | None = None
    prompt: bool = False
    command: str = ""
    end: int = 0


def _marks(text: str) -> list[_Mark]:
    """Every place where something may begin, in order."""
    by_line = {at: _Mark(at, found) for at, found in _beginnings(text).items()}
    for match in PROMPT.finditer(text):
        command = match["a"] or match["b"] or match["c"] or match["d"] or match["e"] or ""
        host = match["host"] or match["upper"]
        by_line[match.start()] = _Mark(match.start(), [], host, True, command.strip())
    for match in _BANNER.finditer(text):
        host = match["host"] or match["ansible"] or match["clush"] or match["watch"]
        if match["file"] or match["words"] or (host and not _NO_HOST.match(host)):
            host = host or match["words"]
            end = match.end() if match["clush"] else 0  # its lines are no banners one by one
            by_line[match.start()] = _Mark(match.start(), [], host, True, match["file"] or host, end)
    return [by_line[at] for at in sorted(by_line)]


def _beginnings(text: str) -> dict[int, list[Reader]]:
    """Where each reader's output may begin; a reader none of whose hints stands in the text is not asked."""
    found: dict[int, list[Reader]] = {}
    for reader in readers():
        if not any(hint in text for hint in reader.HINTS):
            continue
        for pattern in (reader.BEGINS, getattr(reader, "WITHIN", None)):
            if pattern is None:
                continue
            anchored = pattern.pattern.startswith("^")
            for match in pattern.finditer(text):
                at = match.start() if anchored else text.rfind("\n", 0, match.start()) + 1
                known = found.get(at)
                if known is None:
                    found[at] = [reader]
                elif known[-1] is not reader:
                    known.append(reader)
    return found


def _sections(text: str, host: str | None) -> Iterator[Section]:
    start, closed = 0, 0
    counted, line = 0, 1
    among: list[Reader] = []
    begun = False

    def section(end: int) -> Section | None:
        nonlocal counted, line
        body = text[start:end]
        if not body.strip():
            return None
        reader = among[0] if len(among) == 1 else surest(body, tuple(among)) if among else _guess(body)
        if reader is None and all(_understood(line) for line in body.split("\n")):
            return None
        line += text.count("\n", counted, start)
        counted = start
        return Section(reader, body, line, host)

    for mark in _marks(text):
        if mark.at < closed:
            continue
        if mark.prompt:
            if not mark.command and mark.host in (None, host):
                continue  # an empty prompt in the middle of an output
            if found := section(mark.at):
                yield found
            start, among, begun, host = mark.end or mark.at, [], False, mark.host or host
            continue
        common = [reader for reader in mark.readers if reader in among]
        if not among:
            if (begun or not _only_prompt(text[start : mark.at])) and (found := section(mark.at)):
                yield found
                start = mark.at
            among, begun = mark.readers, True
        elif not common or any(_restarts(reader, text, start, mark.at) for reader in common):
            at = mark.at
            if common:
                at -= _lead(common[0], text, start, at)
            if found := section(at):
                yield found
            start, among = at, mark.readers
        else:
            continue
        end = _closing(among, text, mark.at)
        if end:
            closed = end
            if found := section(end):
                yield found
            start, among, begun = end, [], False
    if found := section(len(text)):
        yield found


def _only_prompt(text: str) -> bool:
    """Nothing but a prompt and blank lines: what follows is that command's output."""
    return all(_understood(line) for line in text.split("\n"))


def _guess(body: str) -> Reader | None:
    reader = surest(body)
    return reader if reader is not None and float(reader.recognise(body)) >= 0.5 else None


def _restarts(reader: Reader, text: str, start: int, at: int) -> bool:
    """Whether an output of the same kind begins anew: its first line stands here and stood above already."""
    first: re.Pattern[str] | None = getattr(reader, "RESTARTS", None)
    return first is not None and first.match(text, at) is not None and first.search(text, start, at) is not None


def _lead(reader: Reader, text: str, start: int, at: int) -> int:
    """How much right above the line that begins an output is part of it."""
    above: re.Pattern[str] | None = getattr(reader, "LEAD", None)
    found = above.search(text, start, at) if above else None
    return len(found[0]) if found else 0


def _closing(among: list[Reader], text: str, at: int) -> int:
    """Where an output that closes itself (XML, JSON) ends; 0 for all others, and for one that was cut."""
    for reader in among:
        end = getattr(reader, "end", None)
        if end is not None:
            return int(end(text, at))
    return 0
