"""The sentences of a finding, kept beside the rule that makes it; rendered by `auditor.report.texts`.

Placeholders name a parameter of the finding and a unit the formatter knows: `{measured:TFLOPS}`,
`{gpus:int}`, `{model:text}`. Parameters are in base units.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from auditor.records import Value


class Text(msgspec.Struct, frozen=True):
    """What a reader is told: a headline, what was seen, what was expected, what it means, what to ask for.

    `ask` is the sentence to the provider; empty where there is nothing to ask of them. `variants` are the same
    finding told otherwise; a finding picks one by its parameter `variant`.
    """

    title: str
    observed: str
    expected: str
    meaning: str
    ask: str = ""
    variants: dict[str, Text] = {}

    def told(self, parameters: Mapping[str, Value]) -> Text:
        """The variant these parameters pick, else this one."""
        return self.variants.get(str(parameters.get("variant")), self)


def N_(message: str) -> str:  # noqa: N802  # gettext's own name for "mark, do not translate yet"
    """Marks a sentence for the message catalogues."""
    return message
