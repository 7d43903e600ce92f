"""Sentences and units: placeholders, both languages, and that nothing is left untranslated."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditor.errors import UserError
from auditor.finding import Finding
from auditor.judge import rule
from auditor.report.show import clean, show, width
from auditor.report.texts import LANGUAGES, load, render
from auditor.report.units import UNITS, amount, digits, reading_text, unit_of, with_unit
from auditor.report.view import Report
from auditor.report.words import missing_text, reason_text, span
from tests.report import samples
from tools import texts as catalogue

_SPACES = [chr(code) for code in range(0x1680, 0x3001) if chr(code).isspace()]  # odd, but harmless


def found(id: str, **parameters: object) -> Finding:
    """A finding with just an id and parameters."""
    return Finding(id, "degraded", "review", "gpu-01", "gpu3", "spec", "data sheet", parameters)  # type: ignore[arg-type]


@pytest.mark.parametrize("lang", [lang for lang in LANGUAGES if lang != "en"])
def test_no_text_is_missing_in_a_catalogue(lang: str) -> None:
    """Every marked text, metric, threshold and rule is translated, with the same placeholders; none is left over.

    After a new text: `python -m tools.texts update`, then fill the empty entries of auditor/report/locale/.
    """
    assert catalogue.problems(lang) == []


@pytest.mark.parametrize(
    ("id", "variant"), [(id, variant) for id, text in sorted(rule.texts().items()) for variant in ("", *text.variants)]
)
@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_finding_is_rendered_with_units_that_exist(id: str, variant: str, lang: str) -> None:
    """No text asks for a unit the formatter does not know, and none keeps a placeholder."""
    text = rule.texts()[id].told({"variant": variant})
    names = {
        found_[1:-1].partition(":")
        for part in (text.title, text.observed, text.expected, text.meaning, text.ask)
        for found_ in catalogue.PLACEHOLDER.findall(part)
    }
    assert {unit for _, _, unit in names} - {""} <= {*UNITS, "text"}
    said = render(
        found(id, variant=variant, **{name: 2.5e9 if unit in UNITS else "word" for name, _, unit in names}), lang
    )
    assert said.title and not catalogue.PLACEHOLDER.search("".join(vars(said).values()))


def test_guests_that_were_ordered_are_no_problem_of_the_complaint() -> None:
    """The Summary counts only the server that was ordered as bare metal under "Not bare metal"."""
    metal, guest = samples.replace_order(gpus=2), samples.replace_order(gpus=2, bare_metal=False)
    records = {name: samples.a100(name, True, gpus=2) for name in ("sold-as-metal", "sold-as-guest")}
    report = Report([samples.given(records, {"sold-as-metal": metal, "sold-as-guest": guest})], load("en"))
    said = {problem.servers: report.rendered(problem.example).title for problem in report.problems(9)}
    assert said["sold-as-metal",] == "Not bare metal: passthrough guest"
    assert said["sold-as-guest",] == "Machine: passthrough guest"


def test_a_finding_nobody_wrote_texts_for_is_shown_with_its_parameters() -> None:
    """An unknown id is never dropped."""
    said = render(found("of-tomorrow", amount=3.0, who="them"), "en")
    assert said.title == "of-tomorrow" and "amount 3" in said.observed and "who them" in said.observed


def test_values_are_never_evaluated() -> None:
    """What a value holds is text: no format string, no template, no attribute (threat R11)."""
    texts = load("en")
    hostile = "{measured} {0.__class__} {{7*7}} %s"
    assert texts.fill("got {value:text}", {"value": hostile, "measured": 1.0}) == f"got {hostile}"
    assert texts.fill("{value.real} {value!r}", {"value": 1.0}) == "{value.real} {value!r}"


def test_a_missing_parameter_is_said_to_be_missing() -> None:
    """None and an absent parameter read "not measured", in the reader's language."""
    assert load("en").fill("{a:GB/s} {b}", {"a": None}) == "not measured not measured"
    assert load("zh").fill("{a:GB/s}", {"a": None}) == "未测得"


def test_words_in_a_list_are_translated_one_by_one() -> None:
    """A parameter that is a list of known words reads in the reader's language."""
    assert load("zh").fill("{w}", {"w": "training on one GPU, inference"}) == "单 GPU 训练、推理"


def test_an_unknown_language_is_refused_with_the_known_ones() -> None:
    """`--lang fr` names what is spoken; regional forms of Chinese are Chinese."""
    with pytest.raises(UserError, match="en or zh"):
        load("fr")
    assert load("zh-CN").code == load("zh_Hans").code == "zh"


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (6.55e14, "TFLOPS", "655 TFLOPS"),
        (2.134e10, "GB/s", "21.3 GB/s"),
        (9.9e8, "GB/s", "0.99 GB/s"),
        (0.833, "%", "83.3%"),
        (61.4, "°C", "61 °C"),
        (1.335e9, "MHz", "1,335 MHz"),
        (9.1e-6, "µs", "9.10 µs"),
        (85899345920, "GiB", "80 GiB"),
        (4e11, "Gbit/s", "400 Gbit/s"),
        (0.0, "GB/s", "0 GB/s"),
        (8.0, "int", "8"),
    ],
)
def test_units_read_as_people_write_them(value: float, unit: str, shown: str) -> None:
    """Base units in, three digits and the unit out."""
    assert with_unit(value, unit) == shown


@given(st.floats(min_value=-1e18, max_value=1e18, allow_nan=False))
def test_no_figure_is_ever_scientific(value: float) -> None:
    """Whatever the size, no exponent is printed."""
    assert "e" not in digits(value).lower()
    assert all("e" not in amount(value, unit).lower() for unit in UNITS)


def test_a_metric_says_its_unit_by_its_ending() -> None:
    """The ending of docs/method.md's names decides; an unknown ending is a plain number."""
    assert unit_of("matmul_sustained_flops_per_second") == "TFLOPS"
    assert unit_of("network_interfaces_link_bits_per_second") == "Gbit/s"
    assert unit_of("latency_launch_seconds") == "µs" and unit_of("training_step_seconds") == "s"
    assert reading_text("unheard_of_quantity", 12.0) == "12" and reading_text("x_bytes", None) == ""


@given(st.text(max_size=400))
def test_shown_text_is_one_line_without_hidden_characters(text: str) -> None:
    """Nothing a terminal or a reader obeys comes through, and nothing is longer than it may be."""
    out = show(text)
    assert len(out) <= 200 and "\n" not in out and out.isprintable() or not out
    assert clean(text).replace("\n", "").replace("\xa0", "").isprintable() or any(c in text for c in _SPACES)


def test_wide_characters_count_two() -> None:
    """CJK takes two columns, combining marks none."""
    assert width("服务器 a") == 8 and width("e\u0301") == 1 and width("GPU") == 3


def test_equal_gpus_are_named_together() -> None:
    """gpu0, gpu1, gpu2 are a span; what is missing is named once."""
    assert span(["gpu0", "gpu1", "gpu2", "gpu5"]) == "gpu0–gpu2, gpu5"
    assert missing_text(load("en"), ("thermal of gpu0", "thermal of gpu1", "topology")) == (
        "temperature under load (gpu0, gpu1), topology"
    )


def test_a_reason_is_translated_and_its_detail_kept() -> None:
    """The fixed word reads in the language, what came with it as it came."""
    assert reason_text(load("en"), "disk_full: /home has no room") == "its disk is full: /home has no room"
    assert reason_text(load("zh"), "unreachable") == "服务器没有应答"
    assert reason_text(load("en"), "something_new: x") == "something_new: x"


def test_money_is_written_as_the_language_does() -> None:
    """Symbol, thousands, and enough decimals to tell small prices apart."""
    assert load("en").money(8760.0, "USD") == "$8,760" and load("zh").money(8760.0, "CNY") == "¥8,760"
    assert load("en").money(0.0565, "USD") == "$0.0565" and load("en").money(5.72, "EUR") == "€5.72"
