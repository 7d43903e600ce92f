"""What was paid for: `audit_order` of an inventory, ORDER.yml, and the short form on a command line.

{gpu: A100-SXM4-80GB, gpus: 8, interconnect: nvswitch, bare_metal: true, price_per_hour: 12.0, currency: USD}
8x A100-SXM4-80GB nvswitch bare-metal
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml

from auditor.errors import UserError

Interconnect = Literal["nvswitch", "nvlink", "nvlink_bridge", "pcie", "none"]
INTERCONNECTS = ("nvswitch", "nvlink", "nvlink_bridge", "pcie", "none")
_MACHINE_WORDS = {"bare-metal": True, "bare_metal": True, "baremetal": True, "vm": False}
_SHORT = re.compile(r"\s*(\d{1,4})\s*[xX×]\s*(.+?)\s*$")
_MEMORY = re.compile(r"(\d{1,4})\s?GB\b", re.IGNORECASE)
_MISSING = re.compile(r"Object missing required field `(\w+)`")


class Nics(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Ordered network cards: how many, and the rate of each in Gbit/s."""

    count: int
    gbps: float | None = None


class Order(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One server's order. An absent key is not judged (docs/orders.md lists the exceptions)."""

    gpus: int
    gpu: str | None = None
    interconnect: Interconnect | None = None
    bare_metal: bool | None = None
    memory_gb: float | None = None
    cpus: int | None = None
    ram_gb: float | None = None
    disk_gb: float | None = None
    nics: Nics | None = None
    driver: str | None = None
    price_per_hour: float | None = None
    currency: str | None = None


class Orders(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """ORDER.yml: one order for all servers, and orders by server name."""

    default: Order | None = None
    servers: dict[str, Order] = {}

    def for_server(self, name: str) -> Order | None:
        """The order of one server: its own, else the default, else None."""
        return self.servers.get(name, self.default)


def parse(raw: Any, where: str) -> Order:
    """One order from plain data or the short form; `where` names the file or server in the error.

    Raises:
        UserError: unknown key, wrong type, or an order that contradicts itself.
    """
    if isinstance(raw, str):
        return _short(raw, where)
    try:
        order = msgspec.convert(raw, Order)
    except msgspec.ValidationError as error:
        known = ", ".join(Order.__struct_fields__)
        raise UserError(f"{where}: audit_order: {_said(error)}. Keys that are understood: {known}.") from None
    return checked(order, where)


def load(text_or_path: str) -> Orders:
    """Orders from a file named on the command line, or from the short form itself.

    Raises:
        UserError: the file cannot be read or says something that is no order.
    """
    if not text_or_path.strip():
        raise UserError("--order is empty: an unset variable? Leave it away to audit without an order.")
    path = Path(text_or_path)
    if not _names_a_file(path) and (_SHORT.match(text_or_path) or not path.suffix and len(path.parts) < 2):
        return Orders(default=_short(text_or_path, "--order"))
    try:
        raw = _Unique(path.read_text(encoding="utf-8")).get_single_data()
    except (OSError, UnicodeDecodeError) as error:  # before ValueError: UnicodeDecodeError is one
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UserError(
            f"{path}: the order cannot be read ({why}). Give an ORDER.yml or a short form "
            'such as "8x A100-SXM4-80GB nvswitch bare-metal".'
        ) from None
    except (yaml.YAMLError, ValueError) as error:
        raise UserError(f"{path}: not YAML: {_one_line(error)}.") from None
    except RecursionError:
        raise UserError(f"{path}: nested too deep to be an order.") from None
    if not isinstance(raw, dict):
        raise UserError(f"{path}: expected `default:` and/or `servers:` with an order each.")
    unknown = sorted(set(map(str, raw)) - {"default", "servers"})
    if unknown:
        raise UserError(f"{path}: unknown key `{unknown[0]}`; an order file has only `default` and `servers`.")
    servers = raw.get("servers") or {}
    if not isinstance(servers, dict):
        raise UserError(f"{path}: `servers` must map server names to orders.")
    default = parse(raw["default"], f"{path}: default") if raw.get("default") is not None else None
    return Orders(default, {str(name): parse(one, f"{path}: {name}") for name, one in servers.items()})


def _names_a_file(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a text longer than a file name may be
        return False


def _short(text: str, where: str) -> Order:
    match = _SHORT.match(text)
    if not match:
        raise UserError(
            f'{where}: "{text}" is no order. Write COUNT x MODEL, then an interconnect word '
            f'({", ".join(INTERCONNECTS)}) and "bare-metal" or "vm", for example '
            '"8x A100-SXM4-80GB nvswitch bare-metal".'
        )
    interconnect: Interconnect | None = None
    bare_metal: bool | None = None
    model: list[str] = []
    for word in match[2].split():
        low = word.lower()
        if low in INTERCONNECTS:
            if interconnect not in (None, low):
                raise UserError(f"{where}: two interconnects, {interconnect} and {low}: keep one.")
            interconnect = low  # type: ignore[assignment]  # membership in INTERCONNECTS was just tested
        elif low in _MACHINE_WORDS:
            if bare_metal not in (None, _MACHINE_WORDS[low]):
                raise UserError(f"{where}: bare-metal and vm cannot both be ordered: keep one.")
            bare_metal = _MACHINE_WORDS[low]
        else:
            model.append(word)
    return checked(
        Order(gpus=int(match[1]), gpu=" ".join(model) or None, interconnect=interconnect, bare_metal=bare_metal), where
    )


def shown(order: Order) -> str:
    """An order in words, its keys as they are written."""
    given = [f"{order.gpus} x {order.gpu}" if order.gpu else f"gpus: {order.gpus}"]
    for key in order.__struct_fields__:
        value = getattr(order, key)
        if key not in ("gpus", "gpu") and value is not None:
            plain = msgspec.to_builtins(value)
            words = ", ".join(f"{k} {v}" for k, v in plain.items()) if isinstance(plain, dict) else str(plain)
            given.append(f"{key}: {words.lower() if isinstance(plain, bool) else words}")
    return "; ".join(given)


def checked(order: Order, where: str) -> Order:
    """The order, if it does not contradict itself.

    Raises:
        UserError: it does; the sentence names the place.
    """
    if order.gpus < 0 or order.gpus > 1024:
        raise UserError(f"{where}: gpus: {order.gpus} is no count of GPUs in one server.")
    if order.gpus and not (order.gpu or "").strip():
        raise UserError(f"{where}: {order.gpus} GPUs are ordered but `gpu` names no model; add for example gpu: H200.")
    if order.gpus == 0 and order.gpu:
        raise UserError(f"{where}: gpus: 0 and gpu: {order.gpu} contradict each other: correct one.")
    if order.gpus < 2 and order.interconnect in ("nvswitch", "nvlink_bridge"):
        raise UserError(f"{where}: interconnect: {order.interconnect} needs at least 2 GPUs, {order.gpus} ordered.")
    named = _MEMORY.search(order.gpu or "")
    if named and order.memory_gb is not None and abs(float(named[1]) - order.memory_gb) > 1:
        raise UserError(
            f"{where}: gpu: {order.gpu} and memory_gb: {order.memory_gb:g} contradict each other: correct one."
        )
    if order.price_per_hour is not None and order.currency is None:
        raise UserError(f"{where}: price_per_hour without currency; add for example currency: USD.")
    for key in ("memory_gb", "cpus", "ram_gb", "disk_gb", "price_per_hour"):
        value = getattr(order, key)
        if value is not None and not 0 < value < float("inf"):
            raise UserError(f"{where}: {key}: {value} must be a number above 0.")
    if order.nics and (order.nics.count < 0 or order.nics.gbps is not None and not 0 < order.nics.gbps < float("inf")):
        raise UserError(f"{where}: nics: {order.nics.count} cards of {order.nics.gbps} Gbit/s is no order.")
    return order


class _Unique(yaml.SafeLoader):
    """YAML's safe loader that refuses a key written twice, of which YAML would keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise yaml.constructor.ConstructorError(None, None, f"`{twice[0]}` stands twice", node.start_mark)
        return super().construct_mapping(node, deep)


def _said(error: Exception) -> str:
    """The decoder's words as a person would say them."""
    return _MISSING.sub(lambda found: f"`{found[1]}` is missing", str(error))


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
