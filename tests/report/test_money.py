"""Money: prices that are missing, currencies that do not mix, and what is at stake."""

from __future__ import annotations

from pathlib import Path

import pytest

from auditor.report import write
from auditor.report.texts import load
from auditor.report.view import HOURS_PER_MONTH, Report
from tests.report import reading_back, samples


def summary(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """The rows of the Summary by their first cell."""
    found: dict[str, list[tuple[object, ...]]] = {}
    for row in reading_back.load_workbook(path)["Summary"].iter_rows(values_only=True):
        found.setdefault(str(row[0]), []).append(row)
    return found


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Dollars, yuan and no price at all in one inventory; one server of each currency is rejected."""
    usd = samples.replace_order(gpus=2, price_per_hour=3.0)
    cny = samples.replace_order(gpus=2, price_per_hour=20.0, currency="CNY")
    free = samples.replace_order(gpus=2, price_per_hour=None, currency=None)
    records = {
        "usd-good": samples.a100("usd-good", gpus=2),
        "usd-bad": samples.a100("usd-bad", True, False, gpus=2),
        "cny-good": samples.a100("cny-good", gpus=2),
        "cny-bad": samples.a100("cny-bad", True, False, gpus=2),
        "no-price": samples.a100("no-price", gpus=2),
    }
    orders = {"usd-good": usd, "usd-bad": usd, "cny-good": cny, "cny-bad": cny, "no-price": free}
    return write(samples.given(records, orders), tmp_path_factory.mktemp("money"), ["xlsx"])[0]


def test_currencies_are_never_added_up(mixed: Path) -> None:
    """At stake: each currency for itself, side by side, and the page says why."""
    rows = summary(mixed)
    assert rows["At stake a month"][0][1:3] == (2, "CN¥14,600 + $2,190")
    assert rows["✖ reject"][0][1:3] == (2, "CN¥14,600 + $2,190") and rows["✖ reject"][0][4] == "usd-bad, cny-bad"
    assert rows["✔ accept"][0][1:3] == (3, "CN¥14,600 + $2,190 + 1 server without a price")
    assert "never added up or converted" in str(rows["Currencies"][0][3])
    assert [row[4] for row in rows["Cheapest good choice"]] == ["cny-good", "usd-good"]
    costs = [row[2] for row in rows["provider_a"] if "A100" in str(row[3])]
    assert costs[0] == "no price given" and str(costs[1]).startswith("CN¥") and str(costs[2]).startswith("$")


def test_no_axis_holds_two_currencies(mixed: Path) -> None:
    """Bars of dollars beside bars of yuan would be compared by their length: such a chart is not drawn."""
    assert reading_back.load_workbook(mixed)["Providers"]._charts == []  # type: ignore[attr-defined]


def test_a_missing_price_is_an_empty_cell_and_changes_no_verdict(mixed: Path) -> None:
    """The server is accepted and ranked; price and cost stay empty, never 0."""
    rows = {row["Server"]: row for row in reading_back.table(mixed, "Ranking")}
    row = rows["no-price"]
    assert row["Verdict"] == "✔ accept" and row["Rank: training on all GPUs"] == 1
    assert row["Price per hour"] is None and row["Cost per delivered PFLOP-hour"] is None
    assert rows["usd-good"]["Price per hour"] == 3 and rows["usd-good"]["Currency"] == "USD"
    assert rows["usd-bad"]["Verdict"] == "✖ reject" and "Not bare metal" in str(rows["usd-bad"]["Remark"])


def test_providers_keep_currencies_apart(mixed: Path) -> None:
    """One row per currency; the servers without a price are counted in a row of their own."""
    rows = {row["Currency"]: row for row in reading_back.table(mixed, "Providers")}
    assert set(rows) == {"USD", "CNY", None}
    assert rows["USD"]["Price per hour, all servers"] == 6 and rows["CNY"]["Price per hour, all servers"] == 40
    assert rows[None]["Servers without a price"] == 1 and rows[None]["Cost per delivered PFLOP-hour"] is None


def test_no_price_anywhere_is_said(tmp_path: Path) -> None:
    """Without prices the summary names no cheapest choice and counts the servers instead."""
    order = samples.replace_order(gpus=1, interconnect=None, price_per_hour=None, currency=None)
    path = write(samples.given({"gpu-01": samples.a100(gpus=1)}, order), tmp_path, ["xlsx"])[0]
    rows = summary(path)
    (best,) = rows["Cheapest good choice"]
    assert best[2] is None and best[3] == "none: no accepted server has both a price and a measured bf16 rate"
    assert rows["✔ accept"][0][1:3] == (1, "not known: no price for 1 server")
    assert "no price given" in [row[2] for row in rows["provider_a"]]
    assert rows["At stake a month"][0][1:3] == (0, "0")


def test_a_pflop_hour_costs_price_over_delivered_rate() -> None:
    """The sum of the GPUs' sustained bf16 rates, checked by hand."""
    judged = samples.given({"gpu-01": samples.a100(gpus=2)}, samples.replace_order(gpus=2, price_per_hour=3.0))
    (server,) = judged.judgement.servers
    rates = [float(gpu.figures["matmul_bf16_sustained"] or 0) for gpu in server.gpus]
    assert server.cost is not None and server.cost.per_pflop_hour == pytest.approx(3.0 / (sum(rates) / 1e15))
    report = Report([judged], load("en"))
    assert report.money([server]).per_month == {"USD": 3.0 * HOURS_PER_MONTH}


def test_without_an_order_nobody_is_told_to_pay_as_ordered(tmp_path: Path) -> None:
    """The summary says what was found and that there was no order to hold it against."""
    path = write(samples.given({"gpu-01": samples.a100(gpus=1)}, None), tmp_path, ["xlsx"])[0]
    (line,) = summary(path)["✔ accept"]
    assert line[3] == (
        "Nothing speaks against it, as far as it was measured. Without an order to hold it against: 1 server."
    )
