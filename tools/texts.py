"""The message catalogues: `python -m tools.texts update` collects every text a reader may see into the catalogues,
`python -m tools.texts check` says what is missing in which language, `python -m tools.texts list zh` prints it.

Texts are found where they are written: marked strings in the code and the page templates, the metrics of
docs/method.md, the lines of policy.yaml, what ssh_trouble explains, the sources that rules cite, and the docstrings of
rules, which the Method sheet prints.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_file
from babel.messages.pofile import read_po, write_po

from auditor.judge import policy, rule
from auditor.report.metrics import documented
from auditor.report.texts import LANGUAGES, LOCALES
from auditor.transport import ssh_trouble

ROOT = Path(__file__).parents[1]
KEYWORDS = {"N_": None, "_": None, "n": (1, 2)}
PLACEHOLDER = re.compile(r"\{\w+(?::[^{}]+)?\}")
_PROSE = re.compile(r"[a-z]+ [a-z]+ [a-z]+|^the ")  # three plain words in a row are no name of ours
_ELSEWHERE = ("probes",)


def messages() -> Iterator[tuple[str, str]]:
    """Every message with the place it comes from."""
    for path in sorted((ROOT / "auditor").rglob("*.py")):
        place = path.relative_to(ROOT)
        if place.parts[1] not in _ELSEWHERE:
            yield from _extracted(path, "python", {"N_": None, "_": None})
    for path in sorted((ROOT / "auditor" / "report" / "html").glob("*.html")):
        yield from _extracted(path, "jinja2.ext:babel_extract", {"_": None})
    for path in sorted((ROOT / "auditor" / "judge" / "rules").glob("*.py")):
        for source in _cited(path):
            yield source, str(path.relative_to(ROOT))
    for metric in documented():
        yield metric.meaning, "docs/method.md"
        if _PROSE.search(metric.conditions):
            yield metric.conditions, "docs/method.md"
    for _, _, sentence in ssh_trouble._SIGNS:
        yield sentence, "auditor/transport/ssh_trouble.py"
    lines = policy.load().lines
    for name in lines.__struct_fields__:
        line = getattr(lines, name)
        yield line.source, "auditor/judge/policy.yaml"
        if line.cost:
            yield line.cost, "auditor/judge/policy.yaml"
    for finding_id in sorted(rule.texts()):
        for told in rule.docstrings(finding_id):
            yield " ".join(told.split()), "rules"


def _cited(path: Path) -> Iterator[str]:
    """What the rules of a file cite for an expectation: `source=`, or the sixth argument of `case.finding`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            given = [one.value for one in node.keywords if one.arg == "source"]
            given += node.args[5:6] if isinstance(node.func, ast.Attribute) and node.func.attr == "finding" else []
            for part in (part for argument in given for part in ast.walk(argument)):
                value = constants.get(part.id, part) if isinstance(part, ast.Name) else part
                if isinstance(value, ast.Constant) and isinstance(value.value, str) and _PROSE.search(value.value):
                    yield value.value.strip("; ")


def _extracted(path: Path, method: str, keywords: dict[str, None]) -> Iterator[tuple[str, str]]:
    for _, message, _, _ in extract_from_file(method, path, keywords=keywords):
        text = message[0] if isinstance(message, tuple) else message
        if text:
            yield text, str(path.relative_to(ROOT))


def wanted() -> dict[str, list[str]]:
    """Message → the places it is used in."""
    found: dict[str, list[str]] = {}
    for text, place in messages():
        if text and place not in found.setdefault(text, []):
            found[text].append(place)
    return found


def path_of(lang: str) -> Path:
    """A language's catalogue."""
    return LOCALES / f"{lang}.po"


def translations(lang: str) -> dict[str, str]:
    """What the catalogue holds."""
    with path_of(lang).open("rb") as file:
        return {str(m.id): str(m.string) for m in read_po(file, locale=lang) if m.id and m.string and not m.fuzzy}


def update(lang: str) -> None:
    """Write the catalogue anew: every wanted message with the translation it had."""
    known = translations(lang)
    catalogue = Catalog(locale=lang, project="auditor", charset="utf-8", fuzzy=False)
    for text, places in wanted().items():
        catalogue.add(text, known.get(text, ""), locations=[(place, None) for place in places])
    with path_of(lang).open("wb") as file:
        write_po(file, catalogue, width=0, omit_header=True, include_lineno=False)
    header = f'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=utf-8\\n"\n"Language: {lang}\\n"\n\n'
    path_of(lang).write_text(header + path_of(lang).read_text(encoding="utf-8"), encoding="utf-8")


def problems(lang: str) -> list[str]:
    """What is wrong with a catalogue: missing, left over, or with other placeholders than the text has."""
    known, found = translations(lang), wanted()
    missing = {text: ", ".join(places) for text, places in found.items() if text not in known}
    out = [f"{lang}: not translated: {text!r} ({places})" for text, places in missing.items()]
    out += [f"{lang}: no longer used: {text!r}" for text in known if text not in found]
    for text, string in known.items():
        if sorted(set(PLACEHOLDER.findall(text))) != sorted(set(PLACEHOLDER.findall(string))):
            out.append(f"{lang}: other placeholders: {text!r} → {string!r}")
    return out


def main(arguments: list[str]) -> int:
    """The command line."""
    if arguments[:1] == ["list"] and len(arguments) == 2:
        known = translations(arguments[1])
        for text in wanted():
            if text not in known:
                print(text)  # noqa: T201  # a tool for the terminal
        return 0
    if arguments not in (["update"], ["check"]):
        print(__doc__)  # noqa: T201
        return 2
    others = [lang for lang in LANGUAGES if lang != "en"]
    if arguments == ["update"]:
        for lang in others:
            update(lang)
    found = [line for lang in others for line in problems(lang)]
    for line in found:
        print(line)  # noqa: T201
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
