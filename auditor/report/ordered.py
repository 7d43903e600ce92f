"""An order as one line: "8 × A100-SXM4-80GB, NVSwitch, bare metal"."""

from __future__ import annotations

from auditor.judge.texts import N_
from auditor.order import Order
from auditor.report.show import show
from auditor.report.texts import Texts
from auditor.report.words import word


def order_text(texts: Texts, order: Order | None) -> str:
    """What was ordered, in the reader's language; "no order given" without one."""
    if order is None:
        return texts._(N_("no order given"))
    parts = [f"{order.gpus} × {show(order.gpu, 60)}" if order.gpu else texts._(N_("no GPU"))]
    if order.interconnect:
        parts.append(word(texts, order.interconnect))
    if order.bare_metal is not None:
        parts.append(texts._(N_("bare metal") if order.bare_metal else N_("virtual machine")))
    return texts.listed(parts)
