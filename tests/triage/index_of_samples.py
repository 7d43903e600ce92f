"""What the list of samples expects of each file, read from its own tables: words to categories and severities."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

SAMPLES = Path(__file__).resolve().parents[3] / "shared" / "samples"
_ROW = re.compile(
    r"^\|\s*(?P<file>[\w.-]+/[\w.-]+)\s*\|\s*(?P<machine>.*?)\s*\|\s*(?P<says>.*?)\s*\|\s*(?P<source>[^|]*)\|\s*$"
)
_WORD = re.compile(
    r"\b(MISALLOCATED|DEGRADED|SPOOF-SUSPECT|SPOOFED|VIRTUALIZED-OK|VIRTUALIZED|INDETERMINATE|WARN|OK)\b"
)
_OPEN = re.compile(r"\bif\b")  # "if 8 ordered", "only if load keeps x8"
_ELSEWHERE = re.compile(r"(?:\bnot|same text on an SXM board =)\s*$")  # "not DEGRADED": said of another case


@dataclass
class Expected:
    """One row: the verdict words that hold from the file alone, and those that need an order or a load."""

    file: str
    machine: str
    says: str
    words: set[str] = field(default_factory=set)
    conditional: set[str] = field(default_factory=set)

    @property
    def worst(self) -> tuple[str, ...]:
        """The worst severities that fit, among reject, review, advice, info, and none."""
        if self.words & {"MISALLOCATED", "DEGRADED"}:
            return ("reject", "review")
        if self.words & {"SPOOF-SUSPECT", "SPOOFED"}:
            return ("reject", "review", "advice")
        if self.words & {"VIRTUALIZED", "WARN"}:
            return ("advice",)
        allowed = ("advice", "info", "none")
        return (*allowed, "reject", "review") if self.conditional & {"MISALLOCATED", "DEGRADED"} else allowed

    @property
    def categories(self) -> tuple[set[str], ...]:
        """Sets of categories of which one each must be among the findings."""
        out: list[set[str]] = []
        if self.words & {"MISALLOCATED", "DEGRADED"}:
            out.append({"misallocated", "degraded", "virtualized", "underperforming"})
        if self.words & {"SPOOF-SUSPECT", "SPOOFED"}:
            out.append({"unproven"})
        if "VIRTUALIZED" in self.words:
            out.append({"virtualized"})
        if "INDETERMINATE" in self.words:
            out.append({"incomplete"})
        return tuple(out)


def rows(index: Path = SAMPLES / "INDEX.md") -> list[Expected]:
    """Every row of every table of the list."""
    found = []
    for line in index.read_text(encoding="utf-8").splitlines():
        match = _ROW.match(line)
        if not match:
            continue
        row = Expected(match["file"], match["machine"], match["says"])
        _, verdict, said = match["says"].partition("verdict=")
        for part in re.split(r";", said if verdict else ""):
            if part.strip().startswith("quirk"):
                continue
            for word in _WORD.finditer(part):
                if _ELSEWHERE.search(part[: word.start()]):
                    continue
                rest = part[word.end() :].split(")+")[0].split("+")[0]
                (row.conditional if _OPEN.search(rest) else row.words).add(word[1])
        found.append(row)
    return found
