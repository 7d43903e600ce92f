"""Topology: pairs, links, ports and cards, over the NVML double and fake trees."""

import itertools
import json
import os
import subprocess
import sys

import pytest

from auditor.probes import topology
from auditor.probes.engine import pci_paths
from auditor.probes.engine.gpu_facts import GpuFacts
from tests import nvml_double
from tests.nvml_double import edited, healthy

from .machine_tree import Tree


def measured(asked, double):
    """The probe alone."""
    return asked("topology", double)


def values(outcome, metric, **conditions):
    """Values by subject."""
    return {
        row["subject"]: row["value"]
        for row in outcome.record["readings"]
        if row["metric"] == f"topology_{metric}" and conditions.items() <= row["with"].items()
    }


def pairs(count):
    """All pairs of so many GPUs."""
    return [f"gpu{a}-gpu{b}" for a, b in itertools.combinations(range(count), 2)]


@pytest.mark.parametrize("gpus", [1, 2, 3, 5, 7, 8, 16])
def test_every_pair_has_its_path(asked, machine, gpus):
    """Through switches the path names the GPU's own links, as `nvidia-smi topo -m` does."""
    outcome = measured(asked, machine(healthy("a100x8-nvswitch", gpus)))
    assert values(outcome, "path") == dict.fromkeys(pairs(gpus), "NV12")
    assert values(outcome, "nvlinks_total") == dict.fromkeys(pairs(gpus), 12)
    assert values(outcome, "nvlinks_active_total") == {f"gpu{i}": 12 for i in range(gpus)}
    assert outcome.rows("topology")["server"]["status"] == "measured"


def test_a_full_mesh_of_h200(asked, machine):
    """18 links of 26.562 GB/s, generation 4, registered with the switches' manager, healthy."""
    outcome = measured(asked, machine(healthy("h200x8-nvswitch")))
    assert set(values(outcome, "path").values()) == {"NV18"}
    assert values(outcome, "common_ancestor")["gpu0-gpu1"] == "NODE"
    assert values(outcome, "common_ancestor")["gpu0-gpu7"] == "SYS"
    assert values(outcome, "nvlink_version")["gpu0"] == 4.0
    assert values(outcome, "link_bytes_per_second")["gpu3/link17"] == 26.562e9
    assert values(outcome, "link_remote")["gpu0/link0"] == "switch"
    assert values(outcome, "fabric_state")["gpu0"] == "completed"
    assert values(outcome, "fabric_health")["gpu0"] == "healthy"
    assert values(outcome, "p2p_status", capability="read")["gpu0-gpu1"] == "ok"
    assert values(outcome, "p2p_access") == dict.fromkeys(pairs(8), True)
    assert values(outcome, "cpu_affinity")["gpu7"] == "48-95"
    assert values(outcome, "pcie_generation", port="gpu", which="max")["gpu0"] == 5


def no_links(profile):
    """A guest whose driver has NVLink switched off: every call is not supported."""
    hidden = {f"nvmlDeviceGetNvLinkState[{link}]": None for link in range(18)}
    profile = edited(profile, None, **hidden)
    del profile["gpu"]["fields"]["91"]
    profile["pair"] = {"nvmlDeviceGetP2PStatus": [3, 3, 3, 3], "can access peer": 0}
    for pair in profile["pairs"].values():
        pair["nvmlDeviceGetTopologyCommonAncestor"] = 30
    return profile


def test_the_reference_case_a_guest_without_nvlink(asked, machine):
    """All pairs PHB, link counts not told (null, with the reason), no peer access."""
    outcome = measured(asked, machine(no_links(healthy("a100x8-nvswitch"))))
    assert values(outcome, "path") == dict.fromkeys(pairs(8), "PHB")
    assert values(outcome, "nvlinks_active_total") == {f"gpu{i}": None for i in range(8)}
    assert values(outcome, "nvlinks_total") == {}
    assert values(outcome, "p2p_status", capability="read")["gpu0-gpu1"] == "tns"
    assert values(outcome, "p2p_access")["gpu0-gpu1"] is False
    assert "nvlinks_active_total: not supported" in outcome.rows("topology")["server"]["reason"]


def test_a_link_that_is_down(asked, machine):
    """Its own row says so; the GPU's cells count one less, and both directions of the pair stand."""
    profile = edited(healthy("a100x8-nvswitch", 3), 1, **{"nvmlDeviceGetNvLinkState[5]": 0})
    outcome = measured(asked, machine(profile))
    assert values(outcome, "link_state")["gpu1/link5"] == "inactive"
    assert values(outcome, "link_state")["gpu1/link4"] == "active"
    assert "gpu1/link5" not in values(outcome, "link_remote")
    assert values(outcome, "nvlinks_active_total") == {"gpu0": 12, "gpu1": 11, "gpu2": 12}
    assert values(outcome, "nvlinks_supported_total")["gpu1"] == 12
    assert values(outcome, "path")["gpu0-gpu2"] == "NV12"
    assert values(outcome, "path", **{"from": "gpu1"}) == {"gpu0-gpu1": "NV11", "gpu1-gpu2": "NV11"}
    assert values(outcome, "path", **{"from": "gpu0"}) == {"gpu0-gpu1": "NV12"}
    assert values(outcome, "nvlinks_total")["gpu0-gpu1"] == 11


def test_all_links_down_is_not_the_same_as_not_told(asked, machine):
    """Zero active of twelve: the fabric manager is off; the path falls back to the PCI tree."""
    down = {f"nvmlDeviceGetNvLinkState[{link}]": 0 for link in range(12)}
    outcome = measured(asked, machine(edited(healthy("a100x8-nvswitch", 2), None, **down)))
    assert values(outcome, "nvlinks_active_total") == {"gpu0": 0, "gpu1": 0}
    assert values(outcome, "nvlinks_supported_total") == {"gpu0": 12, "gpu1": 12}
    assert values(outcome, "path") == {"gpu0-gpu1": "PXB"}
    assert values(outcome, "nvlinks_total") == {"gpu0-gpu1": 0}


def test_bridged_pairs_are_found_by_the_far_end(asked, machine):
    """Links that end at the other GPU: four between the bridged pair, none to the third."""
    profile = healthy("a100x8-nvswitch", 3)
    for link in range(12):
        profile = edited(profile, None, **{f"nvmlDeviceGetNvLinkState[{link}]": 1 if link < 4 else None})
    profile = edited(profile, None, nvmlDeviceGetNvLinkRemoteDeviceType=0)
    addresses = [gpu["nvmlDeviceGetPciInfo"]["busId"] for gpu in profile["gpus"]]
    for gpu, other in ((0, 1), (1, 0)):
        far = {f"nvmlDeviceGetNvLinkRemotePciInfo[{link}]": addresses[other] for link in range(4)}
        profile = edited(profile, gpu, **far)
    profile = edited(profile, 2, **{f"nvmlDeviceGetNvLinkState[{link}]": 0 for link in range(4)})
    outcome = measured(asked, machine(profile))
    assert values(outcome, "path") == {"gpu0-gpu1": "NV4", "gpu0-gpu2": "NODE", "gpu1-gpu2": "NODE"}
    assert values(outcome, "link_remote")["gpu0/link0"] == "gpu"


def test_a_gpu_cut_by_mig_shows_an_asymmetric_matrix(asked, machine):
    """Its own row has no NVLink, the others' still do: both cells of the pair stand."""
    outcome = measured(asked, machine(nvml_double.mig(healthy("a100x8-nvswitch", 3), 1)))
    assert values(outcome, "nvlinks_active_total")["gpu1"] is None
    assert values(outcome, "path")["gpu0-gpu2"] == "NV12"
    assert values(outcome, "path", **{"from": "gpu1"}) == {"gpu0-gpu1": "PXB", "gpu1-gpu2": "NODE"}
    assert values(outcome, "path", **{"from": "gpu0"}) == {"gpu0-gpu1": "NV12"}


@pytest.mark.parametrize(
    ("info", "state", "status"),
    [
        ({"state": 2, "status": 0, "healthMask": 0}, "in_progress", 0),
        ({"state": 3, "status": 999, "healthMask": 426}, "completed", 999),
        ({"state": 1, "status": 0, "healthMask": 0}, "not_started", 0),
    ],
)
def test_the_fabric_says_how_far_it_is(asked, machine, info, state, status):
    """A registration that never ends, one that failed, one that never began."""
    profile = edited(healthy("h200x8-nvswitch", 2), None, nvmlDeviceGetGpuFabricInfo={"cliqueId": 0, **info})
    outcome = measured(asked, machine(profile))
    assert values(outcome, "fabric_state")["gpu0"] == state
    assert values(outcome, "fabric_status")["gpu0"] == status


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (0, "not told"),
        (0b01_10_10_10_10, "healthy"),
        (0b0001_10_10_10_01, "degraded_bandwidth"),
        (0b0001_01_01_10_10, "route_unhealthy, access_timeout"),
        (0b0100_10_10_10_10, "no_partition"),
        (0b0101_10_10_10_01, "degraded_bandwidth, too_few_nvlinks"),
    ],
)
def test_the_health_mask_in_words(mask, words):
    """Two bits a question, four for the configuration (nvml.h)."""
    assert topology.health(mask) == words


def test_an_old_driver_has_only_the_first_form_of_the_fabric_call(asked, nvml_libraries, tmp_path):
    """State and status are there, health is not."""
    libraries = nvml_double.build(tmp_path / "old", ["nvmlDeviceGetGpuFabricInfoV"])
    outcome = measured(asked, nvml_double.Machine(tmp_path / "m", libraries, healthy("h200x8-nvswitch", 2)))
    assert values(outcome, "fabric_state") == {"gpu0": "completed", "gpu1": "completed"}
    assert values(outcome, "fabric_health") == {}


def test_a_lost_gpu_has_no_pairs(asked, machine):
    """The others' pairs are complete."""
    outcome = measured(asked, machine(nvml_double.lost(healthy("a100x8-nvswitch", 4), 2)))
    assert set(values(outcome, "path")) == {"gpu0-gpu1", "gpu0-gpu3", "gpu1-gpu3"}


# --- the PCI tree ------------------------------------------------------------------------------------------------


SWITCH_A = "pci0000:10/0000:10:01.0/0000:11:00.0"
SWITCH_B = "pci0000:20/0000:20:01.0/0000:21:00.0"


@pytest.fixture
def root(tmp_path):
    """Two sockets: on the first a switch with two GPUs and a card, a second switch behind it; on the second one GPU."""
    tree = Tree(tmp_path)
    wide = {"current_link_width": "16", "max_link_width": "16"}
    for folder in ("pci0000:10/0000:10:01.0", SWITCH_A, SWITCH_B, "pci0000:20/0000:20:01.0"):
        tree.bridge(folder, current_link_speed="16.0 GT/s PCIe", max_link_speed="32.0 GT/s PCIe", **wide)
    for port in ("0000:12:00.0", "0000:12:01.0", "0000:12:02.0", "0000:12:03.0"):
        tree.bridge(f"{SWITCH_A}/{port}", current_link_speed="8.0 GT/s PCIe", current_link_width="8")
    tree.gpu(f"{SWITCH_A}/0000:12:00.0/0000:13:00.0", node=0, current_link_speed="2.5 GT/s PCIe",
             current_link_width="16", max_link_speed="16.0 GT/s PCIe", max_link_width="16")  # fmt: skip
    tree.gpu(f"{SWITCH_A}/0000:12:01.0/0000:14:00.0", node=0)
    tree.bridge(f"{SWITCH_A}/0000:12:02.0/0000:15:00.0").bridge(f"{SWITCH_A}/0000:12:02.0/0000:15:00.0/0000:16:00.0")
    tree.gpu(f"{SWITCH_A}/0000:12:02.0/0000:15:00.0/0000:16:00.0/0000:17:00.0", node=0)
    tree.pci(f"{SWITCH_A}/0000:12:03.0/0000:18:00.0", node=0, vendor="0x15b3", device="0x1021", local_cpulist="0-31",
             **{"class": "0x020700"})  # fmt: skip
    tree.gpu("pci0000:10/0000:10:02.0/0000:19:00.0", node=0).bridge("pci0000:10/0000:10:02.0")
    tree.gpu("pci0000:18/0000:18:01.0/0000:1a:00.0", node=0)
    tree.gpu(f"{SWITCH_B}/0000:22:00.0/0000:23:00.0", node=1)
    tree.gpu("pci0000:30/0000:30:00.0", node=-1)
    return tree


@pytest.mark.parametrize(
    ("one", "other", "word"),
    [
        ("0000:13:00.0", "0000:14:00.0", "PIX"),  # two ports of one switch
        ("0000:13:00.0", "0000:17:00.0", "PXB"),  # a second switch in between
        ("0000:13:00.0", "0000:19:00.0", "PHB"),  # two root ports of one host bridge
        ("0000:13:00.0", "0000:1a:00.0", "NODE"),  # two host bridges of one node
        ("0000:13:00.0", "0000:23:00.0", "SYS"),  # two sockets
        ("0000:13:00.0", "0000:30:00.0", "SYS"),  # a node that is not told
        ("0000:13:00.0", "0000:18:00.0", "PIX"),  # a card on the same switch
    ],
)
def test_common_ancestors_by_sysfs(root, one, other, word):
    """The words of topo -m from the tree alone."""
    places = [pci_paths.place(str(root), address) for address in (one, other)]
    assert pci_paths.common(*places) == pci_paths.common(*places[::-1]) == word


def test_a_flat_guest_has_everything_under_one_bridge(tmp_path):
    """q35 without switches: PHB between all; each in its own domain without a node: SYS."""
    root = Tree(tmp_path).gpu("pci0000:00/0000:00:05.0").gpu("pci0000:00/0000:00:06.0").gpu("pci0001:00/0001:00:00.0")
    flat, beside, apart = (pci_paths.place(str(root), a) for a in ("0000:00:05.0", "0000:00:06.0", "0001:00:00.0"))
    assert pci_paths.common(flat, beside) == "PHB"
    assert pci_paths.common(flat, apart) == "SYS"


def told(facts, quantity):
    """Values of one quantity by conditions."""
    return {tuple(conditions.values()): value for name, value, _, conditions, _ in facts if name == quantity}


def test_every_port_above_the_gpu_is_told(root):
    """The GPU at rest on generation 1, its port on 3 with half the lanes, the switch on 4 of 5."""
    from auditor.probes.engine.nvml import Nvml

    facts = list(topology.of_ports(Nvml(), str(root), GpuFacts(0, "GPU-1", "0000:13:00.0")))
    assert told(facts, "pci_chain")[()] == "0000:10:01.0/0000:11:00.0/0000:12:00.0/0000:13:00.0"
    generations, lanes = told(facts, "pcie_generation"), told(facts, "pcie_width_lanes")
    assert generations["gpu", "current"] == 1 and generations["gpu", "max"] == 4
    assert generations["0000:12:00.0", "current"] == 3 and lanes["0000:12:00.0", "current"] == 8
    assert generations["0000:11:00.0", "max"] == 5 and lanes["0000:10:01.0", "max"] == 16
    assert ("0000:12:00.0", "max") not in generations  # not told is not guessed


@pytest.mark.parametrize("width", ["0", "63", "255", "", "x"])
def test_a_width_that_cannot_be_is_not_told(tmp_path, width):
    """Guests and dead links print 0 or 63."""
    root = Tree(tmp_path).gpu("pci0000:00/0000:00:05.0", current_link_width=width, current_link_speed="Unknown")
    found = pci_paths.link(str(root.root / "sys/bus/pci/devices/0000:00:05.0"))
    assert found["lanes"]["current"] is None and found["generation"]["current"] is None


def test_cards_and_their_distance(root):
    """Named as the RDMA device where there is one; near and far by the same words."""
    card = f"../../../devices/{SWITCH_A}/0000:12:03.0/0000:18:00.0"
    root.link("sys/class/infiniband/mlx5_0/device", f"../{card}").write(
        "sys/class/infiniband/mlx5_0/ports/1/state", "4"
    )
    gpus = [GpuFacts(0, "GPU-1", "0000:13:00.0"), GpuFacts(1, "GPU-2", "0000:23:00.0")]
    facts = list(topology.of_cards(str(root), gpus))
    found = {(quantity, subject): value for quantity, value, _, _, subject in facts}
    assert found["nic_name", "nic0"] == "mlx5_0"
    assert found["path", "gpu0-nic0"] == "PIX" and found["path", "gpu1-nic0"] == "SYS"
    assert found["numa_node", "nic0"] == 0 and found["cpu_affinity", "nic0"] == "0-31"


def acs(control, *, at=0x148, behind=0x100):
    """Configuration space of a port with ACS behind another extended capability."""
    config = bytearray(4096)
    config[behind : behind + 4] = (0x0001 | 1 << 16 | at << 20).to_bytes(4, "little")
    config[at : at + 4] = (0x000D | 1 << 16).to_bytes(4, "little")
    config[at + 6 : at + 8] = control.to_bytes(2, "little")
    return bytes(config)


@pytest.mark.parametrize(
    ("config", "redirects"),
    [
        (acs(0x001D), True),
        (acs(0x0001), False),  # source validation alone is harmless
        (acs(0x0000), False),
        (bytes(4096), False),
        (b"\xff" * 4096, False),  # a device that fell off the bus reads all ones
        (acs(0x001D)[:256], False),
    ],
)
def test_request_redirect_is_read_from_configuration_space(config, redirects):
    """The walk ends, whatever the bytes say."""
    assert topology.request_redirect(config) is redirects


def test_acs_needs_root(root):
    """Without the right to read past 64 bytes it is null, not "off"; without bridges there is nothing to say."""
    assert [(q, v) for q, v, *_ in topology.of_acs(str(root))] == [("acs_redirect", None)]
    (root.root / f"sys/devices/{SWITCH_A}/0000:12:00.0/config").write_bytes(acs(0x001D))
    (root.root / f"sys/devices/{SWITCH_A}/0000:12:01.0/config").write_bytes(acs(0x0001))
    assert [(q, v) for q, v, *_ in topology.of_acs(str(root))] == [("acs_redirect", "0000:12:00.0")]
    assert list(topology.of_acs(str(root) + "/nothing")) == []


@pytest.mark.parametrize(
    ("words", "text"),
    [([], ""), ([0], ""), ([0b1], "0"), ([0b1011], "0-1,3"), ([1 << 63, 1], "63-64"), ([0, 0b110], "65-66")],
)
def test_cpu_masks_as_the_kernel_writes_them(words, text):
    """Ranges across the borders of words too."""
    assert topology.cpu_list(words) == text


def test_the_matrix_equals_what_nvidia_smi_would_print():
    """Words of NVML's levels (nvml.h); an unknown level is shown, not dropped."""
    assert topology._ANCESTORS == {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}


def test_the_double_is_loaded_by_the_real_binding(machine):
    """Not a mock of ours: pynvml itself opens the library and tells what the profile says."""
    double = machine(healthy("a100x8-nvswitch", 2))
    script = "import json, pynvml as n; n.nvmlInit(); h = n.nvmlDeviceGetHandleByIndex(1); "
    script += "print(json.dumps([n.nvmlDeviceGetName(h), n.nvmlDeviceGetMemoryInfo(h).total, n.nvmlDeviceGetCount()]))"
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env={**os.environ, **double.environment}
    )
    assert json.loads(ended.stdout) == ["NVIDIA A100-SXM4-80GB", 80 << 30, 2], ended.stderr
