"""What a matrix of paths says by itself: bridges that differ, and fewer links than the ordered model has.

`nvidia-smi topo -m` names no model and counts no links of a GPU; NV# does. Through switches NV# between two GPUs is
each GPU's own links; on a board of direct links the sum over its peers is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from auditor.catalog.model import Model
from auditor.finding import Finding
from auditor.judge.case import Case
from auditor.judge.mesh import Mesh
from auditor.judge.rule import rule
from auditor.judge.rules.links import expects_nvlink, mesh, split
from auditor.judge.texts import N_


def complete(case: Case, seen: Mesh) -> bool:
    """True when every pair of GPUs has one cell: no row is missing and none contradicts its mirror."""
    asymmetric = any("from" in cell.conditions for cell in seen.cells.values())
    return case.count > 1 and not asymmetric and len(seen.cells) == case.count * (case.count - 1) // 2


@rule
def bridges_differ(case: Case) -> Iterator[Finding]:
    """Bridged pairs of one server with different numbers of links: a bridge is missing or badly seated."""
    seen = mesh(case)
    if seen.active or not complete(case, seen) or split(case):
        return
    links: Counter[str] = Counter()
    for pair, count in seen.bonded.items():
        for gpu in case.view.members(pair) or ():
            links[gpu] += count
    joined = {gpu: count for gpu, count in links.items() if count}
    most = max(joined.values(), default=0)
    for pair, count in sorted(seen.bonded.items()):
        members = case.view.members(pair) or ("", "")
        alone = all(joined.get(gpu) == count for gpu in members)  # the pair's own bridge, no other peer
        if count and alone and count < most:
            yield case.finding(
                "nvlink-partial",
                "misallocated",
                "review",
                pair,
                "siblings",
                "bridged pairs of the same server",
                {"measured": count, "expected": most, "model": N_("the other pairs"), "links": None},
                (seen.cells[pair], *(seen.cells[other] for other, n in seen.bonded.items() if n == most)),
            )


@rule
def fewer_than_the_model(case: Case) -> Iterator[Finding]:
    """A full mesh of fewer links than the model has: half of the switches, another model, or links that are down."""
    model, seen = expects_nvlink(case), mesh(case)
    if model is None or seen.active or not complete(case, seen) or split(case) or not all(seen.bonded.values()):
        return
    counts = sorted(set(seen.bonded.values()))
    direct = len(counts) == 1 and counts[0] * (case.count - 1) == model.nvlink_links
    least = counts[0]
    if direct or least >= model.nvlink_links or not model.nvswitch_capable:
        return
    half = len(counts) == 1 and 2 * least == model.nvlink_links
    yield case.finding(
        "nvlink-half-partition" if half else "nvlink-partial",
        "misallocated",
        "review",
        "server",
        "spec",
        "; ".join(model.sources[:1]),
        {"measured": least, "expected": model.nvlink_links, "model": model.name, "links": None},
        [cell for pair, cell in seen.cells.items() if seen.bonded[pair] == least][:8],
    )


def _not_its_mesh(case: Case, model: Model) -> bool:
    """NVLink on a card that has none, or from every GPU to two others or more on one that has bridges for pairs."""
    bonded = case.mesh.bonded
    if not bonded or model.sxm:
        return False
    return any(bonded.values()) if not model.nvlink_links else case.count > 2 and all(bonded.values())


@rule
def mesh_of_a_card_without_nvlink(case: Case) -> Iterator[Finding]:
    """NVLink between all GPUs of a card that has none or bridges only, or of a name nobody knows: a renamed board."""
    order, seen = case.order, mesh(case)
    if case.model is not None and _not_its_mesh(case, case.model):
        named = [reading for gpu in case.gpus for reading in case.view.all("gpu_identity_name", gpu)]
        yield case.finding(
            "patched-name",
            "unproven",
            "review",
            "server",
            "contradiction",
            "docs/thresholds.md, links: a card without NVLink in an NVLink mesh is an SXM board under another name",
            {
                "name": str(named[0].value) if named else case.model.name,
                "looks": N_("an SXM board"),
                "what": N_("NVLink between all GPUs"),
            },
            (*list(seen.cells.values())[:4], *named[:1]),
        )
        return
    if order is None or not order.gpu or not seen.bonded or not all(seen.bonded.values()):
        return
    if any(model.nvlink_links for model in case.ordered):
        return
    named = [reading for gpu in case.gpus for reading in case.view.all("gpu_identity_name", gpu)]
    yield case.finding(
        "unknown-name",
        "unproven",
        "review",
        "server",
        "contradiction",
        "docs/thresholds.md, links: a card without NVLink in an NVLink mesh is an SXM board under another name",
        {"name": str(named[0].value) if named else order.gpu, "pci": None},
        (*list(seen.cells.values())[:4], *named[:1]),
    )
