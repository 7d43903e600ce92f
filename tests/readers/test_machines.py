"""Which outputs are of one machine, and what its record holds."""

from __future__ import annotations

from auditor.readers.machines import Machine, Output, machines, record, renamed
from auditor.readers.sections import read, sections
from auditor.records import Record
from tests.readers.reading_inputs import INPUTS

TABLE = (INPUTS / "smi_table" / "two-gpus.txt").read_text(encoding="utf-8")
MATRIX = (INPUTS / "topology_matrix" / "blanks.txt").read_text(encoding="utf-8")
LSCPU = (INPUTS / "lscpu" / "guest.txt").read_text(encoding="utf-8")
LOG = "[1.000001] NVRM: Xid (PCI:0000:2b:00): 79, pid=1, GPU has fallen off the bus.\n"
STRANGE = "[1.000001] NVRM: Xid (PCI:0000:77:00): 79, pid=1, GPU has fallen off the bus.\n"


def outputs(file: str, text: str, folder: str = "") -> list[Output]:
    """The outputs of one file."""
    return [
        Output(file, folder, section.reader.KIND if section.reader else "none", section.host, read(section))
        for section in sections(text)
    ]


def only(found: list[Machine]) -> Record:
    """The record of the one machine there must be."""
    assert len(found) == 1
    return record(found[0], "s", "0", "2026-12-01T00:00:00Z")


def test_files_without_contradiction_are_one_machine() -> None:
    """Table, matrix and CPU of one server, sent as three files, make one record."""
    found = machines(outputs("a", TABLE) + outputs("b", MATRIX) + outputs("c", LSCPU))
    one = only(found)
    metrics = {reading.metric for reading in one.readings}
    assert {"topology_path", "gpu_identity_name", "server_facts_cpu_model"} <= metrics
    assert [subject.id for subject in one.subjects if subject.kind == "gpu"] == ["gpu0", "gpu1"]


def test_one_contradiction_in_a_folder_separates_all_its_files() -> None:
    """Two CPUs in one folder: nobody knows whose the matrix is, so each file stands alone."""
    other = LSCPU.replace("2.90GHz", "2.10GHz")
    found = machines(outputs("a", LSCPU) + outputs("b", other) + outputs("c", MATRIX))
    assert len(found) == 3


def test_the_same_kind_twice_without_a_link_is_two_machines() -> None:
    """Two equal matrices in two files may be of twins: they are not counted as one server."""
    assert len(machines(outputs("a", MATRIX) + outputs("b", MATRIX))) == 2


def test_the_same_uuid_joins_files() -> None:
    """Two looks at the same GPUs are one machine, whatever their files are called."""
    listing = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-aaaaaaaa-0000-4000-8000-000000000001)\n"
    assert len(machines(outputs("a", listing) + outputs("b", listing) + outputs("c", LSCPU, "x"))) == 2


def test_redacted_uuids_join_nothing() -> None:
    """The all-zero UUID that people put over the real one is nobody's."""
    listing = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-00000000-0000-0000-0000-000000000000)\n"
    assert len(machines(outputs("a", listing) + outputs("b", listing))) == 2


def test_hosts_of_one_file_are_told_apart_and_joined_again() -> None:
    """Prompts of two hosts in turn: each host gets its own outputs."""
    text = f"u@n1:~$ lscpu\n{LSCPU}\nu@n2:~$ lscpu\n{LSCPU}\nu@n1:~$ nvidia-smi topo -m\n{MATRIX}"
    found = machines(outputs("a", text))
    assert {machine.host: [output.kind for output in machine.outputs] for machine in found} == {
        "n1": ["lscpu", "topology_matrix"],
        "n2": ["lscpu"],
    }


def test_folders_are_machines() -> None:
    """Files of one folder belong together, files of another to another."""
    found = machines(outputs("n1/a", LSCPU, "n1") + outputs("n1/b", MATRIX, "n1") + outputs("n2/a", LSCPU, "n2"))
    assert [len(machine.outputs) for machine in found] == [2, 1]


def test_each_and_one_are_what_the_person_says() -> None:
    """--each keeps every file apart, --server puts all together, contradiction or not."""
    both = outputs("a", LSCPU) + outputs("b", MATRIX)
    assert len(machines(both, together=False)) == 2
    assert len(machines(both + outputs("c", LSCPU.replace("KVM", "Xen")), one=True)) == 1
    assert machines([]) == machines([], one=True) == []


def test_a_log_finds_its_gpu_by_address() -> None:
    """The Xid of 0000:2b:00.0 is about gpu1, which the table says sits there."""
    one = only(machines(outputs("a", TABLE) + outputs("b", LOG)))
    assert [(r.subject, r.value) for r in one.readings if r.metric == "kernel_log_xid_total"] == [("gpu1", 1)]


def test_an_address_of_no_gpu_here_stays_with_the_server() -> None:
    """A shared kernel log speaks of other tenants' GPUs: the address stands beside the reading."""
    one = only(machines(outputs("a", TABLE) + outputs("b", STRANGE)))
    found = [(r.subject, r.conditions["pci"]) for r in one.readings if r.metric == "kernel_log_xid_total"]
    assert found == [("server", "0000:77:00.0")]


def test_a_log_alone_keeps_its_addresses_as_gpus() -> None:
    """Without a list of GPUs the log's addresses are the GPUs there are."""
    one = only(machines(outputs("b", LOG + STRANGE.replace("79", "48"))))
    assert [s.id for s in one.subjects if s.kind == "gpu"] == ["gpu:0000:2b:00.0", "gpu:0000:77:00.0"]


def test_lists_in_another_order_are_mapped_by_address() -> None:
    """lspci sorts by address, nvidia-smi may not: a GPU is the one at its address."""
    text = (
        "2b:00.0 3D controller: NVIDIA Corporation Device 2330 (rev a1)\n"
        "1a:00.0 3D controller: NVIDIA Corporation Device 2335 (rev a1)\n"
    )
    one = only(machines(outputs("a", TABLE) + outputs("b", text)))
    ids = {r.subject: r.value for r in one.readings if r.metric == "gpu_identity_pci_device"}
    assert ids == {"gpu1": "10de:2330", "gpu0": "10de:2335"}


def test_parts_of_a_subject_are_renamed_together() -> None:
    """Pairs keep the lower index first; links follow their GPU."""
    names = {"gpu0": "gpu3", "gpu1": "gpu2"}
    assert renamed("gpu0-gpu1", names) == "gpu2-gpu3"
    assert renamed("gpu0/link4", names) == "gpu3/link4"
    assert renamed("gpu0-nic1", names) == "gpu3-nic1"
    assert renamed("server", names) == "server"
