"""The sentences of a finding, kept beside the rule that makes it; rendered by `auditor.report.texts`.

Placeholders name a parameter of the finding and a unit the formatter knows: `{measured:TFLOPS}`,
`{gpus:int}`, `{model:text}`. Parameters are in base units.
"""

from __future__ import annotations

import msgspec


class Text(msgspec.Struct, frozen=True):
    """What a reader is told: a headline, what was seen, what was expected, what it means, what to ask for.

    `ask` is the sentence to the provider; empty where there is nothing to ask of them.
    """

    title: str
    observed: str
    expected: str
    meaning: str
    ask: str = ""


def N_(message: str) -> str:  # noqa: N802  # gettext's own name for "mark, do not translate yet"
    """Marks a sentence for the message catalogues."""
    return message
