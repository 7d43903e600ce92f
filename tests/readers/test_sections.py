"""One pasted file to its outputs and its machines."""

from __future__ import annotations

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
