"""BabelStream-like `gpu-stream` of SuperBench: device facts and memory bandwidth by operation and block size."""

from __future__ import annotations

import re

from auditor.readers.parsed import Book, Parsed, shown

KIND = "gpu_stream"
TOOL = "gpu-stream"
HINTS = ("STREAM", " SMs")
BEGINS = re.compile(
    r"^[ \t]*+STREAM Benchmark|^[ \t]*+Device \d+: \"[^\"\n]+\"[ \t]+\d+ SMs|^[ \t]*+STREAM_[A-Z]+_", re.M
)
_DEVICE = re.compile(
    r'[ \t]*Device (\d{1,3}): "([^"]+)"[ \t]+(\d+) SMs\((\d+\.\d+)\).*?x (\d+)-bit.*?(?:ECC is (ON|OFF))?[ \t]*$'
)
_ROW = re.compile(
    r"[ \t]*STREAM_(COPY|SCALE|ADD|TRIAD)_double_gpu_(\d{1,3})_buffer_(\d+)_block_(\d+)"
    r"[ \t]+(\d+(?:\.\d+)?)[ \t]+[\d.]+[ \t]*$"
)
_HEAD = re.compile(r"[ \t]*(?:STREAM Benchmark|Buffer size|Number of|Check data)")


def recognise(text: str) -> float:
    """Its row names."""
    return 0.9 if re.search(r"STREAM_[A-Z]+_double_gpu_\d", text) else 0.2 if "STREAM Benchmark" in text else 0.0


def read(text: str) -> Parsed:
    """Facts of the device line, and a rate per row."""
    book = Book(KIND, TOOL)
    for number, line in enumerate(text.split("\n"), 1):
        device, row = _DEVICE.match(line), _ROW.match(line)
        if device:
            subject = book.gpu(int(device[1]))
            book.add("gpu_identity_name", device[2], subject)
            book.add("gpu_identity_sms_total", int(device[3]), subject)
            book.add("gpu_identity_compute_capability", device[4], subject)
            book.add("gpu_identity_memory_bus_bits", int(device[5]), subject)
            if device[6]:
                book.add("gpu_identity_ecc_enabled", device[6] == "ON", subject, which="current")
        elif row:
            book.add(
                "memory_bandwidth_bytes_per_second",
                float(row[5]) * 1e9,
                book.gpu(int(row[2])),
                op=row[1].lower(),
                bytes=int(row[3]),
                block=int(row[4]),
            )
        elif line.strip() and not _HEAD.match(line):
            book.unreadable(number, f"no device and no result: {shown(line)}")
    return book.parsed()
