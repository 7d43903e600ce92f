"""Real output of other people's tools, read from beside the project where it lies; nothing of it is kept here."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from auditor.commands.triage import Triage, document, triage
from auditor.finding import SEVERITIES
from auditor.readers import text as texts
from auditor.readers.sections import sections
from tests.triage.index_of_samples import SAMPLES, Expected, rows

pytestmark = pytest.mark.skipif(not SAMPLES.is_dir(), reason="no samples beside the project")
ALLOWED = 0.05  # docs/triage.md lists what is behind each


@pytest.fixture(scope="module")
def judged() -> dict[str, tuple[Expected, Triage]]:
    """Every sample judged from itself alone."""
    return {row.file: (row, triage([SAMPLES / row.file], None)) for row in rows()}


def real(one: Triage) -> Iterator[tuple[str, str]]:
    """Category and severity of the findings that say something of the machine."""
    for server in one.judgement.servers:
        for finding in server.findings:
            if finding.id != "not-measured":
                yield finding.category, finding.severity


def fits(expected: Expected, one: Triage) -> bool:
    """Worst severity and categories as the verdict words ask."""
    found = list(real(one))
    worst = next((word for word in SEVERITIES if word in {severity for _, severity in found}), "none")
    categories = {category for category, _ in found}
    left_open = {"incomplete"} if all(server.missing for server in one.judgement.servers) else set()
    return worst in expected.worst and all(wanted & (categories | left_open) for wanted in expected.categories)


def test_every_sample_is_read(judged: dict[str, tuple[Expected, Triage]]) -> None:
    """Each file is one server, its text known to a reader, or with a line that says why it is not."""
    print(f"\n{len(judged)} samples read from {SAMPLES}")
    on_disk = {f"{path.parent.name}/{path.name}" for path in SAMPLES.glob("*/*") if path.is_file()}
    assert on_disk == set(judged)
    for file, (_, one) in judged.items():
        (server,) = one.judgement.servers
        known = [section.reader for section in sections(texts.clean(texts.decode((SAMPLES / file).read_bytes())))]
        assert any(known) or one.unreadable[server.name], file


def test_text_alone_is_never_accepted_or_rejected(judged: dict[str, tuple[Expected, Triage]]) -> None:
    """Whatever a text shows, the verdict is review or incomplete."""
    verdicts = {server.verdict for _, one in judged.values() for server in one.judgement.servers}
    assert verdicts <= {"review", "incomplete"}


def test_findings_are_those_a_renter_may_be_told(judged: dict[str, tuple[Expected, Triage]]) -> None:
    """At least 95 % of the files have the worst severity and the categories that the list of samples asks for."""
    wrong = {file: list(real(one)) for file, (expected, one) in judged.items() if not fits(expected, one)}
    print(f"\n{len(judged) - len(wrong)} of {len(judged)} as the list says; exceptions:")
    for file, found in wrong.items():
        print(f"  {file}: {sorted(judged[file][0].words)}, found {sorted(set(found))}")
    assert len(wrong) <= ALLOWED * len(judged)


def test_nothing_healthy_is_called_ill(judged: dict[str, tuple[Expected, Triage]]) -> None:
    """No file that the list calls OK has a finding at review or above: not one exception."""
    for file, (expected, one) in judged.items():
        if not expected.words & {"MISALLOCATED", "DEGRADED", "SPOOFED", "SPOOF-SUSPECT"} and not expected.conditional:
            assert not {severity for _, severity in real(one)} & {"reject", "review"}, file


def test_every_cell_of_every_matrix(judged: dict[str, tuple[Expected, Triage]]) -> None:
    """Cells, affinity columns, NUMA nodes, GPU NUMA ids and NIC names equal what was written down cell by cell."""
    expected = json.loads((SAMPLES / "topo-expected.json").read_text(encoding="utf-8"))
    cells = 0
    for file, wanted in expected.items():
        server = document(judged[f"topo/{file}"][1])["servers"][0]
        readings = {(r["metric"], r["subject"]): r["value"] for r in server["readings"] if not r["with"]}
        names = wanted.get("devices", [])
        ids = {name: _id(name, names) for name in names}
        for one, row in wanted.get("cells", {}).items():
            for other, cell in zip(names, row, strict=True):
                if one != other:
                    first, last = sorted((one, other), key=names.index)
                    assert readings["topology_path", f"{ids[first]}-{ids[last]}"] == cell, (file, one, other)
                    cells += 1
        for gpu, fields in wanted.get("gpu", {}).items():
            for key, metric in (
                ("cpu", "topology_cpu_affinity"),
                ("numa", "topology_numa_node"),
                ("gpu_numa_id", "topology_gpu_numa_id"),
            ):
                got = readings.get((metric, ids[gpu]))
                want = fields.get(key)
                assert got in (None, "") if want in (None, "N/A") else str(got) == want, (file, gpu, key)
        missing = [row["why"] for row in server["unreadable"] if row["why"].startswith("the row of")]
        assert len(missing) == len(wanted.get("missing_rows", [])), file
        if "error" in wanted:
            assert server["unreadable"] and not server["readings"], file
    print(f"\n{cells} cells of {len(expected)} matrices")
    assert cells > 5000


def _id(name: str, names: list[str]) -> str:
    kind, number = name[:3], name[3:]
    if kind in ("GPU", "NIC"):
        return f"{kind.lower()}{number}"
    return f"nic{[one for one in names if not one.startswith('GPU')].index(name)}"


def test_pasted_into_one_file_they_are_still_told_apart() -> None:
    """All samples of a few kinds one after another in one text: as many matrices come out as went in."""
    paths = sorted((SAMPLES / "topo").glob("*.txt"))
    text = "\n\n".join(path.read_text(encoding="utf-8", errors="replace") for path in paths)
    found = [section for section in sections(texts.clean(text)) if section.reader]
    with_header = sum(1 for path in paths if "GPU0" in path.read_text(encoding="utf-8", errors="replace"))
    assert len(found) == with_header
