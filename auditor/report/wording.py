"""Sentences that others put together: why a probe did not measure, what a verdict lacks, what a rule cites.

Probes know nothing of languages, and a citation is made of a source's title and figures. Each such sentence of ours
is listed here as it comes out, its blanks named; `worded` finds the one that fits. What fits none is somebody else's
words (a driver's, a shell's, a book's title) and is shown as it came.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from auditor.judge.texts import N_
from auditor.report.show import show

if TYPE_CHECKING:
    from auditor.report.texts import Texts

_LONGEST = 2000
_SOURCES = {"driver": N_("driver"), "kernel": N_("kernel"), "measurement": N_("measurement")}

# The narrower one first: the first that fits is taken.
TEMPLATES = (
    # why a needed reading is missing (auditor.judge.needs)
    N_("no reading came"),
    N_("only the {source} spoke"),
    N_("the {source} gave no count"),
    N_("the record shows one GPU"),
    N_("{seen} of {wanted} pairs"),
    N_("{seen} of {wanted} GPUs"),
    N_("no usable value came"),
    N_("taken by method {method}, older than the lines were set for"),
    # why servers are not compared (auditor.judge.ranking)
    N_("measured without a GPU, the others with one"),
    N_("one GPU: there is nothing to train across"),
    N_("not measured: {names}"),
    # why a probe did not measure (auditor.probes)
    N_("one GPU: nothing to exchange"),
    N_("one GPU: no peer"),
    N_("no DCGM host engine runs and none is installed"),
    N_("no DCGM host engine runs"),
    N_("our own DCGM host engine did not come up (exit {code})"),
    N_("{program} is not installed"),
    N_("{program} did not end within {seconds} s"),
    N_("{program} ended with exit code {code}: {words}"),
    N_("the driver lists no GPU"),
    N_("less than {size} MiB of memory are free"),
    N_("{free} GB free on {path}, {wanted} GB wanted (3 times what is written)"),
    N_("{path} cannot be written"),
    N_("no network card in sysfs"),
    N_("/proc/stat tells no stolen time"),
    N_("not even 2 MiB of GPU memory could be allocated"),
    N_("no product was made ready"),
    # why the engine did not let it measure (auditor.probes.engine)
    N_("the engine failed: {words}"),
    N_("not all workers are there"),
    N_("the budget of {seconds} s was used up"),
    N_("the budget of {seconds} s is shorter than the start, which took {took} s: give more"),
    N_("stopped at {celsius} °C: this GPU shuts down at {limit} °C"),
    N_("the driver says {word} since second {second}"),
    N_("the driver says {word}"),
    N_("in use by {whom} since second {second}"),
    N_("in use by {whom}"),
    N_("needs an NVIDIA GPU"),
    N_("not for a GPU server"),
    N_("needs two GPUs"),
    N_("{count} NVIDIA GPUs on the bus, but the driver cannot be used: {words}"),
    N_("no NVIDIA GPU can be used here: {words}"),
    N_("no torch in {path}: install it there, or start the probe with a Python that has it"),
    N_("torch {version} in {path} is built without CUDA"),
    N_("torch {version} is built without CUDA"),
    N_("torch was not ready in time"),
    N_("did not end within {seconds} s: its worker was ended"),
    N_("its worker died: {words}"),
    N_("the worker died: {words}"),
    N_("does not apply to another GPU"),
    N_("no libnvrtc beside torch or on this system"),
    N_("torch sees no CUDA GPU"),
    # why a server was not reached (auditor.transport.ssh_trouble; its fixed sentences are collected there)
    N_("the connection broke: {words}"),
    # why an audit was not begun (auditor.probes.engine.guest, the agents on a server)
    N_("another audit is under way here ({whom})"),
    N_("the audit of run {run} is under way here"),
    N_("lock file {path}"),
    N_("try again when it has ended"),
    # why a record was refused (auditor.reading)
    N_("more than {count} bytes"),
    N_("the file is empty"),
    N_("{file}: not a regular file"),
    N_("not UTF-8 at byte {place}"),
    N_("not one JSON document: {words}"),
    N_("the record is no JSON object"),
    N_("nested deeper than {count}"),
    N_("the key {name} stands twice in one object"),
    N_("{field}: {word} is no RFC 3339 time"),
    N_("{word} is no figure"),
    N_("{word} is out of range"),
    N_("an integer of {count} digits"),
    N_("the integer {number}"),
    N_("schema {seen}, this auditor reads {known}; update the auditor if the record is newer (the raw file is kept)"),
    # what a probe left out, and why
    N_("kernel log: needs root"),
    N_("sweep from {size} bytes"),
    N_("arrays below {count} times the caches"),
    N_("read and triad: {words}"),
    N_("own pattern: fio took it"),
    N_("{seconds} s of {wanted} s of load"),
    N_("ranks between 1 and {count}"),
    N_("memory: the CPU has no allocator to ask"),
    # what a rule cites (auditor.judge.expectations)
    N_("{source}: {figure} TFLOPS dense; lowest published share {share} ({gpu}, {key})"),
    N_("{source}: {figure} GB/s; lowest published share {share} ({gpu}, {key})"),
    N_("{source}, less {share} for its data"),
)


def worded(texts: Texts, text: str) -> str:
    """A sentence of ours in the reader's language, piece by piece where it is a list; else the text as it came."""
    if texts.has(text):
        return texts._(text)
    for pattern, template in _PATTERNS:
        found = pattern.fullmatch(text)
        if found:
            values = {name: worded(texts, _SOURCES.get(value, value)) for name, value in found.groupdict().items()}
            return texts._(template, **values)
    pieces = text.split("; ")
    if len(pieces) > 1:
        return texts.strung(worded(texts, piece) for piece in pieces)
    return show(text, _LONGEST)


def _pattern(template: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>.+?)", re.escape(template)))


_PATTERNS = tuple((_pattern(template), template) for template in TEMPLATES)
