"""What PCI devices say about the machine: which are GPUs, which exist only in guests, which are a BMC.

Ids: the pci.ids database. Cloud network cards that bare metal of the same cloud also has are left out.
"""

from __future__ import annotations

import re

VIRTUAL_IDS = re.compile(
    r"1b36:00(?:01|08|0c|0d|0e|05|10)|1b36:0100|1af4:1[0-9a-f]{3}|1234:1111|8086:29c0|8086:1237|8086:0d57"
    r"|15ad:(?:07a0|0790|07b0|0405)|1414:(?:5353|b111|c030|008e)|5853:0001|80ee:[0-9a-f]{4}|1ab8:[0-9a-f]{4}"
)
VIRTUAL_NAMES = re.compile(
    r"\b(?:(?:QEMU|Virtio|VMware|Hyper-V|VirtualBox) [\w -]*?\w(?=$|[\[(])"
    r"|82G33/G31/P35/P31 Express DRAM Controller|440FX)"
)
BMC = re.compile(r"ASPEED (?:Technology|Graphics)|Matrox Electronics|\b1a03:2000\b|\b102b:05\d\d\b")
NVIDIA = re.compile(r"\bNVIDIA Corporation\b|\[10de:|\b10de:")
NOT_A_GPU = re.compile(
    r"Audio|USB|UCSI|Serial bus|PCI bridge|ISA bridge|Bridge \[0680\]|NVSwitch|Device (?:1af1|22a3|22b[0-9a-f]|2900)\b"
)
DEVICE = re.compile(r"\bDevice ([0-9a-f]{4})\b")


def virtual(text: str) -> list[str]:
    """The virtual devices a line names, by id where it has one, else by name."""
    ids = VIRTUAL_IDS.findall(text)
    return ids or [found.strip() for found in VIRTUAL_NAMES.findall(text)]
