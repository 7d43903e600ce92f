"""Which column is which: headers as people write them, in English and Chinese, and what a cell may say."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from auditor.order import INTERCONNECTS

HEADERS: dict[str, tuple[str, ...]] = {
    "name": ("name", "server", "server name", "host", "hostname", "node", "id", "名称", "服务器", "服务器名称", "主机",
             "主机名", "节点"),
    "address": ("address", "ip", "ip address", "public ip", "ssh host", "ansible_host", "地址", "ip地址", "公网ip",
                "主机地址"),
    "port": ("port", "ssh port", "ansible_port", "端口", "ssh端口"),
    "user": ("user", "username", "login", "ssh user", "ansible_user", "用户", "用户名", "账号", "登录名"),
    "jump": ("jump", "jump host", "bastion", "proxyjump", "跳板机", "堡垒机"),
    "label": ("label", "display name", "note", "remark", "显示名", "备注", "标签"),
    "gpu": ("gpu", "gpu model", "model", "card", "gpu type", "型号", "gpu型号", "显卡", "显卡型号", "卡型"),
    "gpus": ("gpus", "gpu count", "count", "quantity", "cards", "数量", "gpu数量", "卡数", "显卡数量"),
    "interconnect": ("interconnect", "nvlink", "互联", "互连", "互联方式", "卡间互联"),
    "bare_metal": ("bare metal", "bare_metal", "baremetal", "metal", "裸金属", "裸机", "物理机", "是否裸金属"),
    "memory_gb": ("memory_gb", "gpu memory", "gpu memory gb", "vram", "vram gb", "显存", "显存gb", "显存大小"),
    "cpus": ("cpus", "cpu", "cpu cores", "vcpu", "vcpus", "cores", "cpu核数", "核数", "cpu数量"),
    "ram_gb": ("ram_gb", "ram", "ram gb", "memory", "memory gb", "内存", "内存gb", "内存大小"),
    "disk_gb": ("disk_gb", "disk", "disk gb", "storage", "storage gb", "硬盘", "磁盘", "硬盘gb", "存储"),
    "nic_count": ("nics", "nic count", "nic", "网卡数", "网卡数量", "网卡"),
    "nic_gbps": ("nic gbps", "gbps", "network gbps", "网卡速率", "网络带宽", "带宽gbps"),
    "driver": ("driver", "driver version", "驱动", "驱动版本"),
    "price_per_hour": ("price", "price per hour", "price_per_hour", "hourly price", "cost per hour",
                       "价格", "单价", "每小时价格", "小时价"),
    "currency": ("currency", "币种", "货币"),
}  # fmt: skip

_CURRENCIES = {"$": "USD", "us$": "USD", "€": "EUR", "£": "GBP", "¥": "CNY", "￥": "CNY", "元": "CNY", "rmb": "CNY"}
_PRICE = re.compile(
    r"(us\$|[$€£¥￥])?\s*(\d+(?:[.,]\d+)*)\s*(usd|eur|gbp|cny|rmb|hkd|jpy|元)?\s*(?:/\s*(?:h|hr|hour|小时|时))?"
)
_BRACKETS = re.compile(r"[(（\[]([^)）\]]*)[)）\]]")
_CODES = ("usd", "eur", "gbp", "cny", "hkd", "jpy")
_YES = ("yes", "y", "true", "1", "是", "裸金属", "裸机", "bare metal", "bare-metal", "物理机")
_NO = ("no", "n", "false", "0", "否", "vm", "虚拟机", "云主机", "virtual")
_LINK_WORDS = {"bridge": "nvlink_bridge", "nv_switch": "nvswitch", "无": "none", "no": "none"}
_UNITS = {"gb": 1, "gib": 1.073741824, "g": 1, "tb": 1000, "tib": 1099.511627776, "t": 1000}


class NotUnderstood(ValueError):
    """A cell that says something no order can hold; its text is for the person."""


@dataclass(frozen=True)
class Price:
    """An hourly price and, where the cell said it, the currency."""

    amount: float
    currency: str | None


def header(text: object) -> str | None:
    """The key a column's header stands for, None where it is not known."""
    whole = str(text or "")
    for word in (_plain(whole), _plain(_BRACKETS.sub("", whole))):
        for key, names in HEADERS.items():
            if word in names:
                return key
    return None


def unit(text: object) -> str | None:
    """The currency in the brackets of a header such as `单价(元/小时)` or `price (USD)`, None where there is none."""
    for words in _BRACKETS.findall(str(text or "")):
        for word in re.split(r"[/\s]+", words.lower()):
            known = _CURRENCIES.get(word) or (word.upper() if word in _CODES else None)
            if known:
                return known
    return None


def cell(key: str, value: object) -> object:
    """The value of a cell for this key.

    Raises:
        NotUnderstood: it says something else than the key can hold.
    """
    text = str(value).strip()
    return _READERS.get(key, _text)(text)


def _plain(text: object) -> str:
    """A header without case, marks and doubled blanks; Chinese ones without any blank."""
    words = re.sub(r"[\s/*:：()（）\[\].-]+", " ", str(text or "").strip().lower()).strip()
    return words.replace(" ", "") if _chinese(words) else words


def _chinese(text: str) -> bool:
    return any("\u4e00" <= letter <= "\u9fff" for letter in text)


def _text(text: str) -> str:
    return text


def _whole(text: str) -> int:
    match = re.fullmatch(r"(\d{1,7})(?:\.0+)?\s*(?:张|卡|块|核|个|x|×|cores?|vcpus?|cpus?|gpus?)?", text.lower())
    if not match:
        raise NotUnderstood(f"{text!r} is no whole number")
    return int(match[1])


def _gigabytes(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:[.,]\d+)?)\s*(gb|gib|g|tb|tib|t)?", text.lower().replace(",", ""))
    if not match:
        raise NotUnderstood(f"{text!r} is no size; write it in GB")
    return round(float(match[1]) * _UNITS[match[2] or "gb"], 1)


def _gigabits(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(?:gbps|gb/s|gbit/s|g)?", text.lower())
    if not match:
        raise NotUnderstood(f"{text!r} is no rate; write it in Gbit/s")
    return float(match[1])


def _bool(text: str) -> bool:
    word = text.lower()
    if word in _YES:
        return True
    if word in _NO:
        return False
    raise NotUnderstood(f"{text!r} is neither yes nor no")


def _interconnect(text: str) -> str:
    word = text.lower().replace(" ", "_").replace("-", "_")
    word = _LINK_WORDS.get(word, word)
    if word not in INTERCONNECTS:
        raise NotUnderstood(f"{text!r} is none of {', '.join(INTERCONNECTS)}")
    return word


def _price(text: str) -> Price:
    match = _PRICE.fullmatch(text.lower())
    if not match:
        raise NotUnderstood(f"{text!r} is no hourly price")
    if not re.fullmatch(r"\d{1,3}(,\d{3})*(\.\d+)?|\d+(\.\d+)?", match[2]):
        raise NotUnderstood(f"{text!r} is no hourly price: write 1250.5 or 1,250.5")
    sign = match[1] or match[3]
    return Price(float(match[2].replace(",", "")), _CURRENCIES.get(sign, sign.upper()) if sign else None)


def _currency(text: str) -> str:
    word = _CURRENCIES.get(text.lower(), {"人民币": "CNY", "美元": "USD", "欧元": "EUR"}.get(text, text.upper()))
    if not re.fullmatch(r"[A-Z]{3}", word):
        raise NotUnderstood(f"{text!r} is no currency code such as USD or CNY")
    return word


def _port(text: str) -> int:
    number = _whole(text)
    if not 0 < number < 65536:
        raise NotUnderstood(f"{text!r} is no port")
    return number


_READERS: dict[str, Callable[[str], object]] = {
    "port": _port, "gpus": _whole, "cpus": _whole, "nic_count": _whole, "memory_gb": _gigabytes, "ram_gb": _gigabytes,
    "disk_gb": _gigabytes, "nic_gbps": _gigabits, "bare_metal": _bool, "interconnect": _interconnect,
    "price_per_hour": _price, "currency": _currency,
}  # fmt: skip
