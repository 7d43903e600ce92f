"""CUDA's `deviceQuery` sample: what the CUDA driver says of each device."""

from __future__ import annotations

import re
from collections.abc import Callable

from auditor.readers.parsed import Book, Parsed
from auditor.records import Value

KIND = "device_query"
TOOL = "deviceQuery"
HINTS = ("deviceQuery", "CUDA Device Query", "Device ")
BEGINS = re.compile(r"^ ?CUDA Device Query|^[ \t]*+Device \d+: \"[^\"\n]+\"[ \t]*$", re.M)
WITHIN = re.compile(r"deviceQuery Starting")
RESTARTS = re.compile(r"^ ?CUDA Device Query", re.M)
_DEVICE = re.compile(r'[ \t]*Device (\d{1,3}): "([^"]+)"[ \t]*$')
_COUNT = re.compile(r"[ \t]*Detected (\d+) CUDA Capable device")
_BYTES = re.compile(r"\((\d+) bytes\)")
_SMS = re.compile(r"[ \t]*\([ \t]*(\d+)\) Multiprocessors")
_BUS_ID = re.compile(r"(\d+) / (\d+) / (\d+)")


def recognise(text: str) -> float:
    """Its head, or its capability line."""
    return 0.95 if re.search(r"CUDA Device Query|CUDA Capability Major/Minor", text) else 0.0


def read(text: str) -> Parsed:
    """Identity facts per device."""
    book = Book(KIND, TOOL)
    subject: str | None = None
    for number, line in enumerate(text.split("\n"), 1):
        count, device = _COUNT.match(line), _DEVICE.match(line)
        if count:
            book.add("server_facts_gpus_cuda_total", int(count[1]))
        elif device:
            subject = book.gpu(int(device[1]))
            book.add("gpu_identity_name", device[2], subject)
        elif subject and (sms := _SMS.match(line)):
            book.add("gpu_identity_sms_total", int(sms[1]), subject)
        elif ":" in line and subject:
            key, _, value = line.partition(":")
            _fact(book, subject, key.strip(), value.strip(), number)
    return book.parsed()


def _fact(book: Book, subject: str, key: str, value: str, line: int) -> None:
    if key in _FACTS:
        metric, convert = _FACTS[key]
        found = convert(value)
        if found is None:
            book.unreadable(line, f"{key}: {value[:40]!r} is no value that is known")
        elif metric == "gpu_identity_sm_clock_hertz":
            book.add(metric, found, subject, which="max")
        elif metric == "gpu_identity_ecc_enabled":
            book.add(metric, found, subject, which="current")
        else:
            book.add(metric, found, subject)
    elif key == "Device PCI Domain ID / Bus ID / location ID" and (bus := _BUS_ID.match(value)):
        book.gpu(int(subject[3:]), pci=f"{int(bus[1]):04x}:{int(bus[2]):02x}:{int(bus[3]):02x}.0")
    elif key == "CUDA Driver Version / Runtime Version" and re.match(r"[\d.]+", value):
        book.add("server_facts_cuda_version", value.split()[0])


def _bytes(value: str) -> Value:
    match = _BYTES.search(value) or re.match(r"(\d+) bytes", value)
    return int(match[1]) if match else None


def _megahertz(value: str) -> Value:
    match = re.match(r"(\d+(?:\.\d+)?) MHz", value, re.I)
    return float(match[1]) * 1e6 if match else None


def _bits(value: str) -> Value:
    match = re.match(r"(\d+)-bit", value)
    return int(match[1]) if match else None


_FACTS: dict[str, tuple[str, Callable[[str], Value]]] = {
    "CUDA Capability Major/Minor version number": (
        "gpu_identity_compute_capability",
        lambda value: value if re.fullmatch(r"\d+\.\d+", value) else None,
    ),
    "Total amount of global memory": ("gpu_identity_memory_bytes", _bytes),
    "L2 Cache Size": ("gpu_identity_l2_bytes", _bytes),
    "Memory Bus Width": ("gpu_identity_memory_bus_bits", _bits),
    "GPU Max Clock rate": ("gpu_identity_sm_clock_hertz", _megahertz),
    "Device has ECC support": (
        "gpu_identity_ecc_enabled",
        lambda value: {"enabled": True, "disabled": False}.get(value.lower()),
    ),
}
