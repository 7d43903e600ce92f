"""Readers under mutated inputs: no exception but their own, fast, and no reading that the text does not hold."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from auditor.readers import text as texts
from auditor.readers.kinds import Reader, readers
from auditor.readers.sections import read, sections
from auditor.records import Reading
from tests.readers.reading_inputs import INPUTS

OWN = tuple(reader for reader in readers() if (INPUTS / reader.KIND).is_dir())
TEXTS = {
    reader.KIND: [texts.clean(texts.decode(path.read_bytes())) for path in sorted((INPUTS / reader.KIND).glob("*.txt"))]
    for reader in OWN
}
# Figures are printed in these units; a reading's value is a printed number times one of them.
_FACTORS = (1.0, 1e9, 1e6, 1e3, 2.0**20, 2.0**10, 2.0**30, 1e-9, 1e-6, 1e-3, 0.01)
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
# Words that a reader writes for a mark, a number or another spelling in the text.
_SPELT = {
    "passthrough": ("pass", "through"),
    "gpu_reset": ("reset",),
    "node_reboot": ("reboot",),
    "drain_and_reset": ("drain", "reset"),
    "exclusive_process": ("process",),
    "err": ("ERR!",),
    "gpu_lost": ("device handle", "lost", "rev ff", "7f", "Unknown Error"),
    "driver_mismatch": ("mismatch",),
    "no_driver": ("NVML", "NVIDIA-SMI"),
    "no_devices": ("No devices",),
    "unknown": ("U",),
    "active": ("GB/s",),
    "skip": ("Skip", "SKIP"),
}
_RATE = {"2.5": 1, "5": 2, "8": 3, "16": 4, "32": 5, "64": 6}


def cut(text: str, rng: random.Random) -> str:
    """A piece out of it."""
    a, b = sorted(rng.randrange(len(text) + 1) for _ in range(2))
    return text[a:b]


def drop(text: str, rng: random.Random) -> str:
    """A stretch out of the middle is missing."""
    a, b = sorted(rng.randrange(len(text) + 1) for _ in range(2))
    return text[:a] + text[b:]


def glue(text: str, rng: random.Random) -> str:
    """Runs of blanks and line ends vanish here and there."""
    return re.sub(r"[ \t]+|\n", lambda m: "" if rng.random() < 0.15 else m[0], text)


def wrap(text: str, rng: random.Random) -> str:
    """A narrow terminal breaks every line at its width."""
    width = rng.randrange(8, 90)
    return "\n".join(line[i : i + width] for line in text.split("\n") for i in range(0, max(len(line), 1), width))


def shuffle_columns(text: str, rng: random.Random) -> str:
    """The fields of every line change places."""
    order = rng.random
    lines = []
    for line in text.split("\n"):
        fields = re.split(r"([ \t|,]+)", line)
        rng.shuffle(fields)
        lines.append("".join(fields) if order() < 0.7 else line)
    return "\n".join(lines)


def shuffle_lines(text: str, rng: random.Random) -> str:
    """Lines change places."""
    lines = text.split("\n")
    rng.shuffle(lines)
    return "\n".join(lines)


def repeat(text: str, rng: random.Random) -> str:
    """Scroll-back shows some lines again."""
    lines = text.split("\n")
    at = rng.randrange(len(lines))
    return "\n".join(lines[: at + 1] + lines[max(0, at - 5) :])


def foreign(text: str, rng: random.Random) -> str:
    """Another program writes into the middle of lines."""
    at = rng.randrange(len(text) + 1)
    return (
        text[:at] + rng.choice(["[0] ", "\x1b[31m", "\ufffd[4m", "\nroot@host:~# ls\n", "{", "\x00", "“"]) + text[at:]
    )


def reencode(text: str, rng: random.Random) -> str:
    """Bytes read under another encoding than they were written in."""
    wrong = rng.choice([("utf-8", "latin-1"), ("utf-16-le", "utf-8"), ("utf-8", "cp1252")])
    return (
        texts.decode(text.encode(wrong[0], "replace")[rng.randrange(2) :])
        if rng.random() < 0.5
        else (text.encode(wrong[0], "replace").decode(wrong[1], "replace"))
    )


MUTATIONS: tuple[Callable[[str, random.Random], str], ...] = (
    cut,
    drop,
    glue,
    wrap,
    shuffle_columns,
    shuffle_lines,
    repeat,
    foreign,
    reencode,
)


@st.composite
def mutated(draw: st.DrawFn, reader: Reader) -> str:
    """One of a reader's own inputs after one to three mutations."""
    text = draw(st.sampled_from(TEXTS[reader.KIND]))
    rng = random.Random(draw(st.integers(0, 2**32)))
    for mutation in draw(st.lists(st.sampled_from(MUTATIONS), min_size=1, max_size=3)):
        text = mutation(text, rng)
    return text


def held(reading: Reading, text: str) -> bool:
    """Whether the text holds the value: as words, as a printed number in some unit, or as what was counted."""
    value, low = reading.value, text.lower()
    if value is None or value == "":
        return True
    if isinstance(value, bool):
        return True  # a mark or word of a closed set; the tests of inputs hold its meaning
    if isinstance(value, (int, float)):
        if reading.metric.endswith("_total") and float(value) <= len(re.findall(r"\w+", text)):
            return True
        if reading.metric == "topology_pcie_generation" and any(
            rate in text for rate, generation in _RATE.items() if generation == value
        ):
            return True
        return any(
            abs(float(number) * factor - float(value)) <= 1e-9 * max(1.0, abs(float(value)))
            for number in (*_NUMBER.findall(text), *_NUMBER.findall(text.replace("\n", "")))
            if len(number) < 40
            for factor in _FACTORS
        )
    if reading.metric == "gpu_identity_pci_device" or reading.metric == "gpu_identity_pci_subsystem":
        return value.split(":")[1] in low
    if reading.metric in ("server_facts_virtual_pci", "topology_acs_redirect"):
        return all(part.lower()[-4:] in low for part in value.split(","))
    if value.lower() in low or value.replace("_", " ").lower() in low:
        return True
    return any(word.lower() in low for word in _SPELT.get(value, ())) or value.replace("_", "") in re.sub(
        r"[^a-z0-9]", "", low
    )


def check(reader: Reader, text: str) -> None:
    """One text through one reader."""
    reader.recognise(text)
    parsed = reader.read(text)
    for reading in parsed.readings:
        assert held(reading, text), (reading.metric, reading.subject, reading.value)
    ids = {subject.id for subject in parsed.subjects} | {"server"}
    lines = text.count("\n") + 1
    assert all(1 <= row.line <= lines and row.why for row in parsed.unreadable)
    assert all(reading.subject in ids for reading in parsed.readings)


@pytest.mark.parametrize("reader", OWN, ids=lambda reader: reader.KIND)
def test_a_mutated_input_never_breaks_its_reader(reader: Reader) -> None:
    """Cut, glued, wrapped, shuffled, re-encoded: the reader reads what is there and raises nothing."""

    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
    @given(mutated(reader))
    @example("")
    @example("\n")
    def holds(text: str) -> None:
        check(reader, texts.clean(text))

    holds()


@pytest.mark.parametrize("reader", OWN, ids=lambda reader: reader.KIND)
def test_a_reader_survives_every_other_readers_text(reader: Reader) -> None:
    """Text of another tool gives no exception and nothing that is not in it."""
    for kind, own in TEXTS.items():
        if kind != reader.KIND:
            for text in own:
                check(reader, text)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
@given(st.binary(max_size=400) | st.text(max_size=400).map(str.encode))
def test_any_bytes_are_taken(data: bytes) -> None:
    """Whatever a file holds, cleaning and splitting end without an exception and name only lines that exist."""
    text = texts.clean(texts.decode(data))
    for section in sections(text):
        for row in read(section).unreadable:
            assert 1 <= row.line <= text.count("\n") + 1


@pytest.mark.parametrize("reader", OWN, ids=lambda reader: reader.KIND)
def test_a_hundred_kilobytes_take_less_than_a_second(reader: Reader) -> None:
    """No input, repeated, glued to one line or made of its worst characters, makes a reader slow."""
    longest = max(TEXTS[reader.KIND], key=len)
    worst = [longest * (100_000 // len(longest) + 1), longest.replace("\n", " ") * (100_000 // len(longest) + 1)]
    worst += [
        filler * (100_000 // len(filler))
        for filler in (" ", "[", "{", "GPU0 ", "GPU0 X ", "|  ", "\t\n", "0-", "<a>", '"')
    ]
    for text in worst:
        before = time.process_time()
        reader.BEGINS.search(text[:100_000])
        reader.recognise(text[:100_000])
        reader.read(text[:100_000])
        assert time.process_time() - before < 1.0, text[:40]


def test_splitting_a_hundred_kilobytes_takes_less_than_a_second() -> None:
    """Every kind's inputs side by side, and fillers, through cleaning and splitting."""
    everything = "\n".join(text for own in TEXTS.values() for text in own)
    for text in (everything * 3, " " * 100_000, "[" * 100_000, "a@b " * 25_000, "=" * 100_000, "x: y\n" * 20_000):
        before = time.process_time()
        for section in sections(texts.clean(text[:100_000])):
            read(section)
        assert time.process_time() - before < 1.0, text[:40]
