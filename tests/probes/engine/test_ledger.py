"""The ledger: what the record holds, within the limits of the wire."""

import json

from auditor import reading as the_reader
from auditor import records
from auditor.probes.engine.gpu_facts import GpuFacts
from auditor.probes.engine.ledger import Ledger
from auditor.reading import Read
from auditor.records import ProbeRow, Seconds, Tool

HEAD = {
    "tool": Tool("auditor-probe", "1"),
    "run": "R",
    "server": "gpu-01",
    "profile": "quick",
    "device": "cuda",
    "started": "2026-12-01T00:00:00Z",
    "seconds": Seconds(1.0, 0.5, 0.5),
}


def wire(metric="a_b", value=1.0, subject="server", **conditions):
    """A reading as a worker sends it."""
    return {
        "probe": "a",
        "metric": metric,
        "subject": subject,
        "with": conditions,
        "value": value,
        "spread": None,
        "n": None,
        "stable": None,
        "source": "measured",
    }


def accepted(ledger, gpus=()):
    """The record as the controller reads it."""
    data = ledger.document(list(gpus), **HEAD)
    found = the_reader.read_bytes(data)
    assert isinstance(found, Read), found
    return found.record


def test_one_identity_one_reading():
    """Metric, subject, conditions and source are the identity; the latest counts, in the place of the first."""
    ledger = Ledger()
    ledger.add(wire(value=1.0, size=8))
    ledger.add(wire(value=2.0, size=9))
    ledger.add(wire(value=3.0, size=8))
    assert [reading.value for reading in accepted(ledger).readings] == [3.0, 2.0]


def test_every_subject_of_a_reading_or_row_is_listed():
    """With its kind: what is judged must be known."""
    ledger = Ledger()
    for subject in ("gpu0-gpu1", "gpu0/link3", "nic0", "gpu0-nic0"):
        ledger.add(wire(subject=subject))
    ledger.add(wire("topology_nic_name", "mlx5_0", "nic0"))
    ledger.rows.append(ProbeRow("a", 1, "gpu1", "failed", "lost"))
    record = accepted(ledger, [GpuFacts(0, "GPU-0", "0000:07:00.0", "A100")])
    assert {subject.id: subject.kind for subject in record.subjects} == {
        "server": "server",
        "gpu0": "gpu",
        "gpu0-gpu1": "pair",
        "gpu0-nic0": "pair",
        "gpu0/link3": "link",
        "gpu1": "gpu",
        "nic0": "nic",
    }
    named = {subject.id: subject for subject in record.subjects}
    assert (named["gpu0"].uuid, named["gpu0"].pci, named["gpu0"].name) == ("GPU-0", "0000:07:00.0", "A100")
    assert named["nic0"].name == "mlx5_0"


def test_text_that_is_no_text_is_made_so():
    """Half characters and zero bytes of a machine's files do not make the record unreadable; length is capped."""
    ledger = Ledger()
    ledger.add(wire("a_text", "half \ud800 zero \0 end", where="\udcff"))
    ledger.add(wire("a_long", "x" * 100_000))
    ledger.attach("log.txt", "half \ud800")
    record = accepted(ledger)
    assert record.readings[0].value == "half ? zero \ufffd end"
    assert len(record.readings[1].value) == 16_000
    assert record.attachments == {"log.txt": "half ?"}


def test_a_long_attachment_loses_its_middle_and_says_so():
    """Beginning and end are where tools tell what matters."""
    ledger = Ledger()
    ledger.attach("log.txt", "begin " + "\u00e9" * 300_000 + " end")
    text = accepted(ledger).attachments["log.txt"]
    assert text.startswith("begin") and text.endswith(" end") and "bytes left out" in text
    assert len(text.encode()) <= records.MAX_ATTACHMENT_BYTES


def test_a_long_series_is_thinned_evenly():
    """600 points at most, the whole window kept."""
    ledger = Ledger()
    ledger.add_series("a_b", "gpu0", [float(i) for i in range(100_000)], [1.0] * 100_000)
    (series,) = accepted(ledger).series
    assert len(series.t) <= records.MAX_SERIES_POINTS and len(series.t) > 300
    assert series.t[0] == 0.0 and series.t[-1] > 99_000


def test_a_record_past_the_cap_gives_up_attachments_before_figures():
    """The largest first; all readings stay."""
    ledger = Ledger()
    for index in range(200):
        ledger.attach(f"log-{index}.txt", str(index % 10) * (1000 * index))
    for index in range(1000):
        ledger.add(wire(size=index))
    data = ledger.document([], **HEAD)
    assert len(data) <= records.MAX_RECORD_BYTES
    document = json.loads(data)
    assert len(document["readings"]) == 1000
    kept = document["attachments"]
    assert "log-1.txt" in kept and "log-199.txt" not in kept


def test_what_is_known_is_told_to_later_probes():
    """All readings so far, and whether anything is new."""
    ledger = Ledger()
    ledger.add(wire(size=8))
    assert ledger.changed
    assert json.loads(ledger.facts()) == [{"metric": "a_b", "subject": "server", "with": {"size": 8}, "value": 1.0}]
    assert not ledger.changed
