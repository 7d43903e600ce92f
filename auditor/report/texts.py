"""Every sentence a reader sees, in their language: catalogues, placeholders, and the rendering of findings.

English is the source; `locale/zh.po` holds the Chinese. The catalogue is read when it is needed: nothing is
compiled and nothing has to be built (tools/texts.py extracts, updates and checks it).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from babel.messages.pofile import read_po
from babel.numbers import format_currency

from auditor.errors import UserError
from auditor.finding import Finding
from auditor.judge.rule import texts as rule_texts
from auditor.judge.texts import N_, Text
from auditor.records import Value
from auditor.report.show import show
from auditor.report.units import UNITS, digits, with_unit
from auditor.report.wording import worded
from auditor.report.words import needs_text, reason_text, why_missing

LOCALES = Path(__file__).parent / "locale"
LANGUAGES = ("en", "zh")
NOT_MEASURED = N_("not measured")
_COMMA, _SEMICOLON = N_(", "), N_("; ")
_PLACEHOLDER = re.compile(r"\{(\w+)(?::([^{}]+))?\}")
_WORDS = {True: N_("yes"), False: N_("no")}


@dataclass(frozen=True)
class Rendered:
    """A finding in words."""

    title: str
    observed: str
    expected: str
    meaning: str
    ask: str


class Texts:
    """One language: looks a message up and fills its placeholders."""

    def __init__(self, code: str) -> None:
        self.code = code
        self._messages = {} if code == "en" else _catalogue(code)

    def _(self, message: str, **parameters: Value) -> str:
        """The message in this language, its placeholders filled."""
        return self.fill(self._messages.get(message, message), parameters)

    def n(self, one: str, many: str, count: int, **parameters: Value) -> str:
        """The message for a count; both forms stand in the catalogue (Chinese has one)."""
        return self._(one if count == 1 else many, count=count, **parameters)

    def has(self, message: str) -> bool:
        """True when the catalogue holds this very message: then it is a sentence of ours."""
        return message in self._messages

    def listed(self, parts: Iterable[str]) -> str:
        """Words one after the other, as this language lists them."""
        return self._messages.get(_COMMA, _COMMA).join(parts)

    def strung(self, parts: Iterable[str]) -> str:
        """Sentences one after the other."""
        return self._messages.get(_SEMICOLON, _SEMICOLON).join(parts)

    def named(self, message: str) -> str:
        """The message in this language before anything is filled in: each placeholder as its name, ‹gpus›."""
        return _PLACEHOLDER.sub(lambda found: f"‹{found[1].replace('_', ' ')}›", self._messages.get(message, message))

    def fill(self, template: str, parameters: dict[str, Value]) -> str:
        """Put values into `{name}` and `{name:unit}`; never evaluates anything a value may hold (threat R11)."""
        return _PLACEHOLDER.sub(lambda found: self._value(parameters.get(found[1]), found[2]), template)

    def _value(self, value: Value, unit: str | None) -> str:
        if value is None:
            return self._(NOT_MEASURED)
        if isinstance(value, bool):
            return self._(_WORDS[value])
        if isinstance(value, str):
            return self._words(value)
        return with_unit(value, unit) if unit in UNITS else digits(value)

    def _words(self, value: str) -> str:
        """A parameter that is one of our words, or a list of them, reads in the language; all else is shown."""
        if value in self._messages:
            return self._messages[value]
        parts = value.split(", ")
        if len(parts) > 1 and any(part in self._messages for part in parts):
            return "、".join(self._messages.get(part) or show(part, 400) for part in parts)
        return show(value, 4000)

    def money(self, value: float, currency: str) -> str:
        """An amount with its currency, as this language writes it."""
        size = abs(value)
        places = "0" if size >= 1000 else "00" if size >= 0.1 else "0000"
        locale = "zh_Hans_CN" if self.code == "zh" else "en_US"
        return str(format_currency(value, show(currency, 12), f"¤#,##0.{places}".removesuffix(".0"), locale, False))


@cache
def load(lang: str) -> Texts:
    """The texts of one language; `zh-CN`, `zh_Hans` and the like are `zh`.

    Raises:
        UserError: no catalogue for this language.
    """
    code = re.split(r"[-_.]", lang.strip().lower())[0]
    if code not in LANGUAGES:
        raise UserError(f"lang: {lang!r} is not spoken here; choose {' or '.join(LANGUAGES)}.")
    return Texts(code)


def told(finding: Finding) -> Text:
    """The texts of a finding as its parameters pick them, placeholders and all."""
    return (rule_texts().get(finding.id) or _unknown(finding)).told(finding.parameters)


def render(finding: Finding, lang: str | Texts) -> Rendered:
    """A finding as its five sentences. An id without texts is shown with its parameters, never dropped."""
    texts = load(lang) if isinstance(lang, str) else lang
    text = told(finding)
    reason, detail = finding.parameters.get("reason"), finding.parameters.get("detail") or ""
    parameters: dict[str, Value] = {
        "server": finding.server,
        "subject": finding.subject,
        "gpu": finding.subject,
        "basis_source": finding.source,
        **finding.parameters,
        # A fixed word of the audit reads as a sentence; no detail is no gap.
        **({"reason": reason_text(texts, reason)} if isinstance(reason, str) else {}),
        "detail": worded(texts, detail) if isinstance(detail, str) else detail,
        **_what_is_missing(finding, texts),
    }
    said = (texts._(getattr(text, part), **parameters) if getattr(text, part) else "" for part in _PARTS)
    return Rendered(*(sentence.strip() for sentence in said))


def _what_is_missing(finding: Finding, texts: Texts) -> dict[str, Value]:
    """The needs that policy.yaml names, and why they were not met, in words."""
    what, reason = finding.parameters.get("what"), finding.parameters.get("reason")
    if finding.id != "not-measured" or not isinstance(what, str) or not isinstance(reason, str):
        return {}
    return {"what": needs_text(texts, what), "reason": why_missing(texts, reason)}


_PARTS = ("title", "observed", "expected", "meaning", "ask")


def _unknown(finding: Finding) -> Text:
    listed = "; ".join(f"{name} {{{name}}}" for name in finding.parameters)
    return Text(finding.id, listed, "", "")


def _catalogue(code: str) -> dict[str, str]:
    with (LOCALES / f"{code}.po").open("rb") as file:
        catalogue = read_po(file, locale=code)
    return {m.id: m.string for m in catalogue if isinstance(m.id, str) and m.id and m.string and not m.fuzzy}
