"""One pasted file to its outputs and its machines."""

from __future__ import annotations

import pytest

from auditor.readers.sections import read, sections
from tests.readers.reading_inputs import INPUTS

MATRIX = (INPUTS / "topology_matrix" / "blanks.txt").read_text(encoding="utf-8")
TABLE = (INPUTS / "smi_table" / "two-gpus.txt").read_text(encoding="utf-8")
LSCPU = (INPUTS / "lscpu" / "guest.txt").read_text(encoding="utf-8")
LOG = (INPUTS / "kernel_log" / "stamps.txt").read_text(encoding="utf-8")
JSON = (INPUTS / "dcgmi_json" / "v4-entities.txt").read_text(encoding="utf-8")
XML = (INPUTS / "smi_xml" / "one-gpu.txt").read_text(encoding="utf-8")
LIST = (INPUTS / "smi_list" / "mig.txt").read_text(encoding="utf-8")


def kinds(text: str) -> list[str | None]:
    """The kinds of a text's sections, in order."""
    return [section.reader.KIND if section.reader else None for section in sections(text)]


def test_outputs_pasted_one_after_another_are_told_apart() -> None:
    """Seven outputs without a word between them are seven sections, whatever their order."""
    parts = [TABLE, MATRIX, LSCPU, JSON, LOG, XML, LIST]
    wanted = ["smi_table", "topology_matrix", "lscpu", "dcgmi_json", "kernel_log", "smi_xml", "smi_list"]
    assert kinds("\n".join(parts)) == wanted
    assert kinds("\n".join(reversed(parts))) == wanted[::-1]


def test_words_between_outputs_are_listed_and_never_dropped() -> None:
    """Chatter stands as unreadable with the line it begins on."""
    text = f"Hello!\nhere it is:\n{JSON}\nand now the CPU\n\n{LSCPU}"
    lines = [(u.line, u.why) for section in sections(text) for u in read(section).unreadable]
    assert lines[0] == (1, "not the output of a tool that is known: Hello! and 1 more lines")
    assert any("and now the CPU" in why for _, why in lines)


def test_prompts_name_the_host_and_are_no_strangers() -> None:
    """user@host prompts give the host of what follows; prompts themselves are not listed as unreadable."""
    text = f"root@gpu-01:~# nvidia-smi topo -m\n{MATRIX}\n[admin@gpu-02 ~]$ lscpu\n{LSCPU}\nroot@gpu-02:~# "
    found = sections(text)
    assert [section.host for section in found] == ["gpu-01", "gpu-02"]
    assert not [u for section in found for u in read(section).unreadable]


def test_banners_of_loops_name_the_host() -> None:
    """A line such as "===== gpu-01 =====" begins another machine; "=== lscpu ===" does not."""
    text = f"===== gpu-01 =====\n{LSCPU}\n===== gpu-02 =====\n{LSCPU}\n=== lscpu ===\n{LSCPU}"
    assert [section.host for section in sections(text)][:2] == ["gpu-01", "gpu-02"]


def test_lines_prefixed_by_their_host_are_sorted() -> None:
    """pdsh writes the host before every line and mixes hosts; each gets its own text back."""
    rows = MATRIX.strip().split("\n")[:5]
    text = "\n".join(f"node{host}: {row}" for row in rows for host in (1, 2))
    found = sections(text)
    assert [(section.host, section.reader.KIND if section.reader else None) for section in found] == [
        ("node1", "topology_matrix"),
        ("node2", "topology_matrix"),
    ]
    assert read(found[0]).readings == read(found[1]).readings
    strange = [section for section in sections(f"{text}\nnode2: what is this") if section.host == "node2"]
    assert [row.line for section in strange for row in read(section).unreadable] == [11]


def test_the_same_output_twice_is_two_sections() -> None:
    """A second header begins a second matrix."""
    assert kinds(f"{MATRIX}\n{MATRIX}") == ["topology_matrix", "topology_matrix"]
    assert kinds(f"{TABLE}\n{TABLE}") == ["smi_table", "smi_table"]


def test_line_numbers_are_those_of_the_file() -> None:
    """An unreadable line in the second section is named by its place in the whole text."""
    text = f"{LSCPU}\n{MATRIX.split('Legend')[0]}what is this\n"
    wanted = text.split("\n").index("what is this") + 1
    assert [u.line for section in sections(text) for u in read(section).unreadable] == [wanted]


def test_fences_and_ornaments_are_silent() -> None:
    """Markdown fences, rulers and blank lines are neither sections nor unreadable."""
    text = f"```\n{LSCPU}```\n\n----------\n"
    assert kinds(text) == ["lscpu"]
    assert not read(sections(text)[0]).unreadable


def test_nothing_is_nothing() -> None:
    """An empty text has no sections."""
    assert sections("") == sections("\n \n") == []


@pytest.mark.parametrize(
    ("first", "second", "hosts"),
    [
        ("gpu-01 | CHANGED | rc=0 >>", "gpu-02 | SUCCESS | rc=0 >>", ["gpu-01", "gpu-02"]),
        (
            "---------------\ngpu-01\n---------------",
            "---------------\nn[2-3] (2)\n---------------",
            ["gpu-01", "n[2-3]"],
        ),
        (
            "Every 2.0s: nvidia-smi            gpu-01: Tue Dec  1 10:00:00 2026\n",
            "Every 0.5s: nvidia-smi            gpu-02: Tue Dec  1 10:00:09 2026\n",
            ["gpu-01", "gpu-02"],
        ),
        ("┌--(root㉿gpu-a)-[~]\n\\-# nvidia-smi", "╭-root@gpu-b ~\n╰-$ nvidia-smi", ["gpu-a", "gpu-b"]),
        ("Server 1:", "## Server 2", ["Server 1", "Server 2"]),
        ("第一台:", "第二台:", ["第一台", "第二台"]),
    ],
)
def test_every_way_to_name_the_next_machine(first: str, second: str, hosts: list[str]) -> None:
    """Ansible, clush -b, watch, two-line prompts and plain words begin another machine and are no strangers."""
    found = sections(f"{first}\n{TABLE}\n{second}\n{TABLE}")
    assert [section.host for section in found if section.reader] == hosts
    assert not [row for section in found for row in read(section).unreadable]


def test_prompts_of_other_shells_are_no_strangers() -> None:
    """An arrow for a prompt begins the next output, and neither it nor what `script` writes is listed."""
    text = f"Script started on 2026-12-01\n➜  ~ lscpu\n{LSCPU}(base) ➜  ~ git:(main) nvidia-smi\n{TABLE}exit\nlogout\n"
    assert [kind for kind in kinds(text) if kind] == ["lscpu", "smi_table"]
    assert not [row for section in sections(text) for row in read(section).unreadable]


@pytest.mark.parametrize(
    "kind", ["cpuinfo", "device_query", "dmi", "lscpu", "lspci_tree", "nvlink_status", "smi_list", "smi_table"]
)
def test_two_machines_without_a_word_between_are_two_outputs(kind: str) -> None:
    """The same output of a second machine begins anew: nothing of the first is overwritten."""
    text = next(path.read_text() for path in sorted((INPUTS / kind).glob("[!cfls]*.txt")))
    once, twice = sections(text), sections(text + text)
    assert kinds(text + text) == 2 * kinds(text)
    assert sum(len(read(section).readings) for section in twice) == 2 * sum(len(read(one).readings) for one in once)


def test_the_time_above_the_second_table_is_the_second_tables() -> None:
    """The date and the frame above a table go with it, also where the table above has one of its own."""
    found = sections(TABLE + TABLE.replace("10:00:00", "11:11:11"))
    times = [[r.value for r in read(one).readings if r.metric == "smi_table_printed_at"] for one in found]
    assert times == [["Tue Dec  1 10:00:00 2026"], ["Tue Dec  1 11:11:11 2026"]]
