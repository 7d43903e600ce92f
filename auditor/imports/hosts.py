"""From rows to hosts.yml: how to reach each server and what was ordered, and a list of what was not understood."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import yaml

from auditor import order, runs
from auditor.errors import UserError
from auditor.imports import columns, tables

_REACH = {"address": "ansible_host", "port": "ansible_port", "user": "ansible_user"}
_AS_THEY_ARE = ("interconnect", "bare_metal", "memory_gb", "cpus", "ram_gb", "disk_gb", "driver", "currency")
_ADDRESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9.:-]{0,252}")
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_TEMPLATE = re.compile(r"\{[{%#]|[}%#]\}")  # Ansible runs what stands between these, also from a list of servers
_JUMP = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:-]{0,252}")


@dataclass
class Imported:
    """What an import came to: hosts for the inventory, and sentences on what was left out."""

    hosts: dict[str, dict[str, Any]] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read(path: Path) -> Imported:
    """Read a spreadsheet (CSV, XLSX) or an ssh_config.

    Raises:
        UserError: the file cannot be read, or no column names a server or an address.
    """
    found = Imported()
    if _is_ssh_config(path):
        for host in tables.ssh_config(path):
            clean = {key: text for key, text in host.items() if not _TEMPLATE.search(text)}
            _add(found, clean, host["name"])
        return found
    rows = tables.rows(path)
    at, keys = _heading(path, rows)
    priced_in = next((columns.unit(t) for t, key in zip(rows[at], keys, strict=False) if key == "price_per_hour"), None)
    for index, title in enumerate(rows[at]):
        if title.strip() and keys[index] is None:
            found.left_out.append(f"column {title.strip()[:40]!r}: not known")
    for number, row in enumerate(rows[at + 1 :], at + 2):
        cells: dict[str, Any] = {}
        for key, text in zip(keys, row, strict=False):
            if key is None or not text.strip():
                continue
            if _TEMPLATE.search(text):
                found.left_out.append(f"row {number}, {key}: holds template marks, which an inventory would execute")
                continue
            if isinstance(text, tables.Formula):
                found.left_out.append(
                    f"row {number}, {key}: {text[:60]!r} is a formula without a result: write what it stands for"
                )
                continue
            try:
                cells[key] = columns.cell(key, text)
            except columns.NotUnderstood as error:
                found.left_out.append(f"row {number}, {key}: {error}")
        if cells:
            if priced_in:
                cells.setdefault("currency", priced_in)
            _add(found, cells, f"row {number}")
    return found


def text(found: Imported, source: str) -> str:
    """hosts.yml, with what was not understood as comments at its head."""
    head = [f"# Made from {Path(source).name} by `auditor inventory import`. Read it, correct it, commit it."]
    head += [f"# not understood: {_comment(line)}" for line in found.left_out]
    head += [f"# note: {_comment(line)}" for line in found.notes]
    body = yaml.safe_dump({"all": {"hosts": found.hosts}}, allow_unicode=True, sort_keys=False, width=110)
    return "\n".join(head) + "\n---\n" + body


def _is_ssh_config(path: Path) -> bool:
    if path.exists() and not path.is_file():
        raise UserError(f"{path}: is no file. Name a CSV, an XLSX or an ssh_config.")
    try:
        start = path.read_bytes()[:65536]
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}).") from None
    return bool(re.search(rb"(?im)^\s*Host\s+\S", start)) and bool(
        re.search(rb"(?im)^\s+(HostName|User|Port)\s", start)
    )


def _heading(path: Path, rows: list[list[str]]) -> tuple[int, list[str | None]]:
    for at, row in enumerate(rows[:20]):
        keys = [columns.header(title) for title in row]
        if sum(key is not None for key in keys) >= 2 and {"name", "address"} & set(keys):
            return at, [None if key in keys[:index] else key for index, key in enumerate(keys)]
    raise UserError(
        f"{path}: no header row was found. One row must name the columns, at least a server's name or address and one "
        f"more; names that are understood: {', '.join(names[0] for names in columns.HEADERS.values())} "
        "(English or Chinese)."
    )


def _add(found: Imported, cells: dict[str, Any], where: str) -> None:
    name, label = _name(found, cells, where)
    host: dict[str, Any] = {}
    for key, variable in _REACH.items():
        value = cells.get(key)
        if value is None:
            continue
        if key != "port" and not (_USER if key == "user" else _ADDRESS).fullmatch(str(value)):
            found.left_out.append(f"{where}, {key}: {str(value)[:60]!r} is no {key}")
            continue
        host[variable] = value
    jump = cells.get("jump")
    if jump and _JUMP.fullmatch(str(jump)):
        host["ansible_ssh_common_args"] = f"-o ProxyJump={jump}"
    elif jump:
        found.left_out.append(f"{where}, jump: {str(jump)[:60]!r} is no jump host")
    if label:
        host["audit_label"] = label
    reach = {key: host.get(key) for key in ("ansible_host", "ansible_port")}
    same = [other for other, known in found.hosts.items() if {key: known.get(key) for key in reach} == reach]
    if same and host.get("ansible_host"):
        found.notes.append(f"{where}: {name} has the address of {same[0]}: one machine listed twice?")
    wanted = _order(cells)
    if wanted:
        try:
            host["audit_order"] = _data(order.parse(wanted, where))
        except UserError as error:
            found.left_out.append(str(error))
    found.hosts[name] = host


def _name(found: Imported, cells: dict[str, Any], where: str) -> tuple[str, str | None]:
    """A name the inventory may hold; what the list calls the server stays in its display name."""
    given = str(cells.get("name") or cells.get("address") or "")
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", given).strip("-._")[:55]
    if not given.isascii() or not runs.SERVER_NAME.fullmatch(plain):
        plain = f"server-{len(found.hosts) + 1}"
    name, number = plain, 2
    while name in found.hosts:
        name, number = f"{plain}-{number}", number + 1
    renamed = cells.get("name") is not None and given != name
    if renamed:
        found.notes.append(f"{where}: {given!r} is called {name} here; its own name is the display name")
    labels = [given] if renamed else []
    if cells.get("label"):
        labels.append(str(cells["label"]))
    return name, ", ".join(labels) or None


def _order(cells: dict[str, Any]) -> dict[str, Any]:
    """The cells that say what was ordered, as the mapping `auditor.order` reads."""
    wanted: dict[str, Any] = {key: cells[key] for key in _AS_THEY_ARE if key in cells}
    short = re.fullmatch(r"(\d+)\s*[xX×*卡]\s*(.+)", str(cells.get("gpu", "")))
    model = short[2] if short else cells.get("gpu")
    if model:
        wanted["gpu"] = str(model).strip()
    count = cells.get("gpus", int(short[1]) if short else None)
    if count is not None:
        wanted["gpus"] = count
    price = cells.get("price_per_hour")
    if isinstance(price, columns.Price):
        wanted["price_per_hour"] = price.amount
        if price.currency:
            wanted.setdefault("currency", price.currency)
    else:
        wanted.pop("currency", None)
    if "nic_count" in cells:
        wanted["nics"] = {"count": cells["nic_count"], **({"gbps": cells["nic_gbps"]} if "nic_gbps" in cells else {})}
    return wanted


def _data(one: order.Order) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(one)
    kept = {key: value for key, value in plain.items() if value is not None}
    if isinstance(kept.get("nics"), dict):
        kept["nics"] = {key: value for key, value in kept["nics"].items() if value is not None}
    return kept


def _comment(line: str) -> str:
    return " ".join(line.split())
