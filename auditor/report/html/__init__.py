"""The HTML report: one self-contained file that loads nothing, works without a network and prints well."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

FOLDER = Path(__file__).parent


@cache
def environment() -> Environment:
    """Templates are our own files; what a server said comes in as a value and is escaped (threats R10, R11)."""
    return Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def asset(name: str) -> str:
    """The text of a style sheet or script that is put into the page."""
    return (FOLDER / name).read_text(encoding="utf-8")


def safe_asset(name: str) -> Markup:
    """The same, not to be escaped: it is ours."""
    return Markup(asset(name))  # noqa: S704


def policy() -> str:
    """The content security policy: nothing may be loaded, only these very scripts and styles may run."""
    return (
        f"default-src 'none'; script-src {_sum('page.js')}; style-src {_sum('style.css')}; "
        "base-uri 'none'; form-action 'none'"
    )


def _sum(name: str) -> str:
    digest = base64.b64encode(hashlib.sha256(asset(name).encode()).digest()).decode()
    return f"'sha256-{digest}'"
