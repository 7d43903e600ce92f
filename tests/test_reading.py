"""The one reader: what a stranger's bytes may do to the controller. Tests carry the ids of the threat list."""

import json
import os
import resource
import subprocess
import sys
import time

import pytest

from auditor import reading, records
from auditor.reading import Read, Refused


def document(**changes):
    """A small valid record as a plain document, with top-level keys replaced."""
    record = records.Record(
        schema=1,
        tool=records.Tool("auditor-probe", "0.1.0"),
        run="20261201T031500Z",
        server="gpu-01",
        profile="quick",
        device="cuda",
        started="2026-12-01T03:15:00Z",
        seconds=records.Seconds(30.0, 5.0, 25.0),
        subjects=(records.Subject("gpu0", "gpu", 0, "GPU-1", "0000:06:00.0"),),
        probes=(records.ProbeRow("matmul", 1, "gpu0", "measured", None, 1.9, ("fp64",)),),
        readings=(
            records.Reading("matmul", "matmul_boost_flops_per_second", "gpu0", 8e14, "measured", {"dtype": "bf16"}),
        ),
        series=(records.Series("thermal_watts", "gpu0", (0.0, 0.1), (100.0, None)),),
        attachments={"dcgmi-diag.json": "{}"},
    )
    return {**records.to_document(record), **changes}


def read(value):
    """Read a document, or raw bytes as they are."""
    return reading.read_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())


def test_a_record_comes_back_as_it_was_sent():
    """What a server wrote is what the controller reads, conditions under their wire name `with` included."""
    result = read(document())
    assert isinstance(result, Read)
    assert json.loads(json.dumps(records.to_document(result.record))) == json.loads(json.dumps(document()))
    assert result.record.readings[0].conditions == {"dtype": "bf16"}
    assert result.unknown_keys == 0


@pytest.mark.parametrize(
    "started", ["yesterday", "1970", "", "2026-13-01T00:00:00Z", "2026-12-01T03:15:00", "20261201"]
)
def test_F09_a_start_that_is_no_time_is_refused_with_what_stands_there(started):
    """A record must say when it was made, as RFC 3339 with its zone."""
    result = read(document(started=started))
    assert isinstance(result, Refused)
    assert str(result) == f"malformed: started: {started!r} is no RFC 3339 time"


@pytest.mark.parametrize(
    "started", ["2026-12-01T03:15:00.123456Z", "2026-12-01T11:15:00+08:00", "1970-01-01T00:00:00Z"]
)
def test_F09_a_time_is_a_time_also_where_it_is_wrong(started):
    """Whether a clock is right is for the judge to say."""
    assert isinstance(read(document(started=started)), Read)


@pytest.mark.parametrize("size", [records.MAX_RECORD_BYTES + 1, 200 * 1024 * 1024])
def test_R01_a_file_past_the_cap_is_refused_without_reading_it_all(tmp_path, size):
    """A sparse giant costs neither memory nor time."""
    path = tmp_path / "record.json"
    with path.open("wb") as file:
        file.truncate(size)
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    result = reading.read_file(path)
    assert isinstance(result, Refused) and result.reason == "too_large"
    assert time.monotonic() - start < 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 100_000, json.dumps(document())[:-1] + ',"x":' + "[" * 900 + "]" * 900 + "}"]
)
def test_R02_deep_nesting_is_refused_before_the_parser_recurses(text):
    """Depth is counted on the text, so no RecursionError can come out."""
    result = read(text.encode())
    assert isinstance(result, Refused) and result.reason == "too_deep"


@pytest.mark.parametrize(
    ("figure", "reason"),
    [
        ("NaN", "not_finite"),
        ("Infinity", "not_finite"),
        ("-Infinity", "not_finite"),
        ("1e999", "not_finite"),
        ("9223372036854775808", "out_of_range"),
        ("1" * 10_000, "out_of_range"),
    ],
)
def test_R03_figures_that_are_none_are_refused(figure, reason):
    """A figure that is not finite or does not fit never reaches a cell."""
    result = read(json.dumps(document()).replace("800000000000000.0", figure).encode())
    assert isinstance(result, Refused) and result.reason == reason


def _leaves(value, path=()):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, (*path, key))
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            yield from _leaves(inner, (*path, index))
    else:
        yield path, value


def _put(value, path, new):
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = new


@pytest.mark.parametrize(
    "path", [p for p, v in _leaves(json.loads(json.dumps(document()))) if p[0] not in ("attachments",)]
)
def test_R04_a_leaf_of_another_type_is_refused_by_its_path(path):
    """No coercion: a list where a leaf belongs is refused, and the reason says where or which field."""
    value = json.loads(json.dumps(document()))
    _put(value, path, [["x"]])
    result = read(value)
    assert isinstance(result, Refused) and result.reason in ("malformed", "unsupported_version")


def test_R04_bools_and_numeric_texts_are_no_numbers():
    """True is not 1 and "3" is not 3."""
    for wrong in (True, "3"):
        value = json.loads(json.dumps(document()))
        value["seconds"]["total"] = wrong
        result = read(value)
        assert isinstance(result, Refused) and "seconds.total" in result.detail


@pytest.mark.parametrize("key", ["tool", "run", "server", "profile", "device", "started", "seconds"])
def test_R05_a_missing_key_is_refused_by_name(key):
    """Missing is never zero and never passes."""
    value = document()
    del value[key]
    result = read(value)
    assert isinstance(result, Refused) and key in result.detail


def test_R05_unknown_keys_are_counted_not_trusted():
    """A newer minor version may say more: it is read, and the count is shown."""
    value = document(extra=1)
    value["readings"][0]["verdict"] = "pass"
    result = read(value)
    assert isinstance(result, Read) and result.unknown_keys == 2


def test_R06_duplicate_keys_are_refused_at_any_depth():
    """The first 3 TFLOPS and then 300 under one key is no record."""
    for text in (
        '{"schema":1,"schema":1}',
        json.dumps(document()).replace('"total": 30.0', '"total": 3, "total": 300'),
    ):
        result = read(text.encode())
        assert isinstance(result, Refused) and result.reason == "duplicate_key"


def test_R07_every_cut_of_a_record_is_refused():
    """A record cut anywhere is no record."""
    data = json.dumps(document()).encode()
    for part in range(50):
        assert isinstance(read(data[: len(data) * part // 50]), Refused)


@pytest.mark.parametrize("data", [b"", b"\0" * 100, b"<html>login</html>", b"{}{}", b"Welcome!\n{}", b"null", b"[]"])
def test_R07_what_is_no_json_object_is_refused(data):
    """Banners, login pages, two documents and nothing at all each have a reason."""
    assert isinstance(read(data), Refused)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-16-le"])
def test_R08_only_utf8_is_read(encoding):
    """Another encoding is refused, a byte order mark of UTF-8 is allowed."""
    assert isinstance(read(json.dumps(document()).encode(encoding)), Refused)
    assert isinstance(read(json.dumps(document()).encode("utf-8-sig")), Read)


def test_R08_a_lone_surrogate_is_refused():
    """It would break the workbook later."""
    value = document()
    value["readings"][0]["value"] = "\ud800"
    assert isinstance(read(value), Refused)


def test_R15_texts_and_attachments_have_caps():
    """A megabyte in one text is refused."""
    value = document()
    value["readings"][0]["value"] = "x" * 1_000_000
    assert isinstance(read(value), Refused)
    assert isinstance(read(document(attachments={"a.txt": "x" * (records.MAX_ATTACHMENT_BYTES + 1)})), Refused)
    assert isinstance(read(document(attachments={"../a": "x"})), Refused)


def test_R16_only_a_regular_file_is_opened(tmp_path):
    """Links, pipes, devices and folders are refused without waiting."""
    (tmp_path / "link").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("link", "pipe", "folder", "absent"):
        result = reading.read_file(tmp_path / name)
        assert isinstance(result, Refused) and result.reason == "unreadable"


def test_R18_the_controller_never_unpickles_nor_loads_foreign_yaml():
    """The calls that execute what they read do not occur on the controller."""
    found = subprocess.run(
        ["grep", "-rnE", r"pickle\.|torch\.load|yaml\.(load|unsafe_load|full_load)\(|eval\(|exec\(",
         "auditor", "plugins", "--include=*.py", "--exclude-dir=probes"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    # the courier's text runs on the server, where it reads our own agent from its standard input
    lines = [line for line in found.stdout.splitlines() if "onserver" not in line and "courier.py" not in line]
    assert lines == []


@pytest.mark.parametrize("schema", [0, 2, 99, "1", 1.0, True, None, [1]])
def test_R19_another_schema_is_refused_and_said(schema):
    """The raw file stays for a later release; the reason names both versions."""
    result = read(document(schema=schema))
    assert isinstance(result, Refused) and result.reason == "unsupported_version" and result.sha256


def test_names_from_servers_are_held_to_their_form():
    """Subjects, metrics, sources and series of another form are refused."""
    for rows, change in (
        ("subjects", {"id": "../x"}), ("subjects", {"kind": "planet"}), ("probes", {"status": "ok"}),
        ("readings", {"metric": "=cmd"}), ("readings", {"subject": "a b"}), ("readings", {"source": "hearsay"}),
        ("series", {"t": [1.0]}),
    ):  # fmt: skip
        value = json.loads(json.dumps(document()))
        value[rows][0].update(change)
        result = read(value)
        assert isinstance(result, Refused) and result.reason == "malformed", (rows, change)


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from Linux")
def test_a_full_size_record_is_read_in_a_second():
    """The cap itself is cheap: 8 MiB of readings."""
    value = document()
    row = value["readings"][0]
    value["readings"] = [row] * (7 * 1024 * 1024 // len(json.dumps(row)))
    start = time.process_time()
    assert isinstance(read(value), Read)
    assert time.process_time() - start < 5
