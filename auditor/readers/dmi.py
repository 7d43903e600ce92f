"""`dmidecode`, or /sys/class/dmi/id as grep and head print it: who says to have made the machine."""

from __future__ import annotations

import re

from auditor.readers.parsed import Book, Parsed, shown

KIND = "dmi"
TOOL = "dmidecode"
HINTS = ("dmidecode", "SMBIOS", "DMI type", "System Information", "/dmi/id/")
_SYSFS = r"/sys/(?:class|devices/virtual)/dmi/id/(sys_vendor|product_name|board_vendor|bios_vendor|chassis_asset_tag)"
BEGINS = re.compile(
    r"^[ \t]*+(?:# dmidecode \d|SMBIOS \d|Handle 0x[0-9A-F]{4}, DMI type|System Information[ \t]*$"
    rf"|{_SYSFS.replace('(sys', '(?:sys')}:)",
    re.M,
)
RESTARTS = re.compile(r"^[ \t]*+(?:# dmidecode \d|/sys/(?:class|devices/virtual)/dmi/id/sys_vendor:)", re.M)
_HANDLE = re.compile(r"[ \t]*Handle 0x[0-9A-Fa-f]+, DMI type (\d+)")
_PAIR = re.compile(r"[ \t]*([A-Z][\w /-]{1,40}):[ \t]*(.*?)[ \t]*$")
_SYSFS_LINE = re.compile(rf"[ \t]*{_SYSFS}:[ \t]*(.*?)[ \t]*$")
_FIELDS = {
    ("System Information", "Manufacturer"): "sys_vendor",
    ("System Information", "Product Name"): "product_name",
    ("Base Board Information", "Manufacturer"): "board_vendor",
    ("BIOS Information", "Vendor"): "bios_vendor",
    ("Chassis Information", "Asset Tag"): "chassis_asset_tag",
}
_EMPTY = ("", "Not Specified", "To Be Filled By O.E.M.", "Default string")


def recognise(text: str) -> float:
    """Its head, or handles of DMI types."""
    return 0.9 if re.search(r"# dmidecode|DMI type \d|/dmi/id/\w+:", text) else 0.4 if "Product Name:" in text else 0.0


def read(text: str) -> Parsed:
    """Maker and product of system, board, BIOS and chassis."""
    book = Book(KIND, TOOL)
    heading = ""
    for number, line in enumerate(text.split("\n"), 1):
        sysfs, pair = _SYSFS_LINE.match(line), _PAIR.match(line)
        if not line.strip() or _HANDLE.match(line) or line.lstrip().startswith(("#", "SMBIOS", "Getting SMBIOS")):
            continue
        if sysfs:
            if sysfs[2] not in _EMPTY:
                book.add("server_facts_dmi", sysfs[2], field=sysfs[1])
        elif pair and line[:1] in " \t":
            field = _FIELDS.get((heading, pair[1]))
            if field and pair[2] not in _EMPTY:
                book.add("server_facts_dmi", pair[2], field=field)
        elif re.fullmatch(r"[A-Z][A-Za-z /-]{3,50}", line.strip()):
            heading = line.strip()
        elif line[:1] not in " \t":
            book.unreadable(number, f"not understood: {shown(line)}")
    return book.parsed()
