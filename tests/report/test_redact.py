"""Redaction: nothing that names a machine is left in any format, and the same machine keeps the same name."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

from auditor.records import ProbeRow, Reading
from auditor.report import write
from auditor.report.redact import Names, redacted
from auditor.runs import State
from tests.report import reading_back, samples

ADDRESSES = ("198.51.100.7", "2001:db8::17", "de:ad:be:ef:00:01")
SECRETS = (*ADDRESSES, "rack7-node3", "rack7-node3.example.com", "SN-4711-0815")
UUID = "GPU-7f3a9b12-1111-4222-8333-0123456789ab"


def given() -> samples.Given:
    """Two servers whose records, labels and reasons hold secrets everywhere a record can hold text."""
    made = samples.a100("gpu-01", gpus=2)
    subjects = tuple(replace(s, uuid=UUID) if s.id == "gpu0" else s for s in made.subjects)
    rows = [row for row in made.readings if row.metric not in ("server_facts_hostname", "gpu_identity_serial")]
    rows += [
        Reading("server_facts", "server_facts_hostname", "server", "rack7-node3", "kernel/sysfs"),
        Reading("gpu_identity", "gpu_identity_serial", "gpu0", "SN-4711-0815", "driver/nvml"),
        Reading("unheard_of", "unheard_of_text", "server", f"{' '.join(SECRETS)} {UUID} 550.54.15 v1.2", "measured"),
        Reading("unheard_of", "unheard_of_text", "gpu0", "0000:07:00.0 at 03:15:42", "measured", {"at": ADDRESSES[0]}),
    ]
    own = [row for row in rows if row.metric == "gpu_identity_uuid" and row.subject == "gpu0"]
    rows = [replace(row, value=UUID) if row in own else row for row in rows]
    probes = (*made.probes, ProbeRow("storage", 1, "server", "failed", "no route from rack7-node3 to 198.51.100.7"))
    record = replace(made, subjects=subjects, readings=tuple(rows), probes=probes, attachments={"x.txt": UUID})
    states = {"198-51.host": State("reach", "unreachable", "ssh: connect to host 198.51.100.7 port 22: timed out")}
    return samples.given(
        {"gpu-01": record, "198-51.host": None},
        samples.replace_order(gpus=2),
        labels={"gpu-01": "Müller's rack7-node3"},
        states=states,
    )


def test_no_secret_is_left_in_any_format(tmp_path: Path) -> None:
    """Workbook, page, document, CSV, JUnit and textfile: none holds an address, host name, serial or UUID."""
    judged = given()
    for path in write(judged, tmp_path, ["xlsx", "html", "json", "csv", "junit", "prometheus"], redact=True):
        parts = reading_back.parts(path) if path.suffix == ".xlsx" else {path.name: path.read_bytes()}
        for name, data in parts.items():
            text = data.decode("utf-8", "replace")
            for secret in (*SECRETS, UUID[4:], "gpu-01", "198-51.host", "Müller"):
                assert secret not in text, (path.name, name, secret)


def test_the_same_value_gets_the_same_name_everywhere(tmp_path: Path) -> None:
    """Formats of one report agree: a finding, its server and its evidence still belong together."""
    (path,) = write(given(), tmp_path, ["json"], redact=True)
    document = json.loads(path.read_text(encoding="utf-8"))
    assert [server["name"] for server in document["servers"]] == ["server-0001", "server-0002"]
    one = document["servers"][0]
    uuid = one["gpus"][0]["uuid"]
    assert uuid.startswith("GPU-uuid-") and uuid != one["gpus"][1]["uuid"]
    told = next(r["value"] for r in one["readings"] if r["metric"] == "unheard_of_text" and r["subject"] == "server")
    assert uuid in told and "550.54.15 v1.2" in told
    place = next(r for r in one["readings"] if r["metric"] == "unheard_of_text" and r["subject"] == "gpu0")
    assert place["value"] == "0000:07:00.0 at 03:15:42" and place["with"]["at"].startswith("address-")
    keys = [key for finding in one["findings"] for key in (finding["key"], finding["root"]) if key]
    assert keys and all(key.startswith("server-0001:") for key in keys)


def test_verdicts_and_figures_are_untouched() -> None:
    """Redaction changes names, never a verdict or a figure."""
    judged = given()
    (shown,) = redacted([judged])
    before, after = judged.judgement.servers, shown.judgement.servers
    assert [s.verdict for s in before] == [s.verdict for s in after]
    assert [s.figures for s in before] == [s.figures for s in after]
    assert shown.record("server-0001") is not None and shown.record("server-0002") is None


def test_versions_and_pci_addresses_are_no_addresses() -> None:
    """Four-part numbers with leading zeros, PCI addresses and times are left alone."""
    names = Names()
    for text in ("92.00.45.00.03", "G525.0225.00.05", "00000000:9B:00.0", "12:34:56", "torch 2.13.0+cu130"):
        assert names.text(text) == text
    assert names.text("a 10.0.0.1:22 b [fe80::1]") == "a address-0002:22 b [address-0001]"


def test_a_server_named_like_a_model_corrupts_no_text(tmp_path: Path) -> None:
    """Models and sentences of ours stay whole; the name still goes where the server or the inventory said it."""
    record = replace(samples.a100("a100", gpus=2), server="a100")
    states = {"h200": State("reach", "unreachable", "ssh: connect to host h200 port 22: timed out")}
    order = samples.replace_order(gpus=4, gpu="H200")
    judged = samples.given({"a100": record, "h200": None}, order, states=states)
    (path,) = write(judged, tmp_path, ["json"], redact=True)
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"server-000\d (SXM|PCIe|141|80)", text) and not re.search(r"NVIDIA server", text)
    assert "A100 SXM4 80GB" in text and "host h200 port" not in text and "host server-0002 port" in text
    before = [(f.id, f.source) for s in judged.judgement.servers for f in s.findings]
    (shown,) = redacted([judged])
    assert before == [(f.id, f.source) for s in shown.judgement.servers for f in s.findings]


def test_model_names_stay_whole_in_a_text() -> None:
    """A word is replaced as a whole token outside of model names only."""
    names = Names()
    names.word("server", "h200")
    for text in ("H200 SXM5 141GB", "NVIDIA H200", "ordered 8 NVIDIA H200, h200-sxm", "GH200"):
        assert names.text(text) == text
    assert names.text("root@h200:~ H200.example.com") == "root@server-0001:~ server-0001"
