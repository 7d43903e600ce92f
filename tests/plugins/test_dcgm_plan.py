"""Which DCGM a server would get, and why it gets none."""

import pytest
from ansible.module_utils.dcgm_plan import plan

READY = {
    "os": "Ubuntu 22.04", "os_id": "ubuntu", "os_version": "22.04", "package_manager": "apt", "privilege": "sudo",
    "container": "none", "nvidia_devices": ["10de:2330"], "driver_version": "580.95.05",
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "action", "words"),
    [
        ({"nvidia_devices": []}, "keep", "no NVIDIA GPU"),
        ({"dcgm_running": True}, "keep", "used as it is"),
        ({"dcgm": "datacenter-gpu-manager-4-core 4.6.0"}, "keep", "left as it is"),
        ({"driver_version": None}, "refuse", "no driver"),
        ({"container": "docker"}, "refuse", "host"),
        ({"privilege": "none"}, "refuse", "root"),
        ({"os_version": "20.04", "os": "Ubuntu 20.04"}, "refuse", "Ubuntu 20.04"),
    ],
)
def test_nothing_is_installed_where_it_is_not_ours_to_do(changes, action, words):
    """Each refusal has its reason."""
    got = plan({**READY, **changes})
    assert got.action == action and words in got.reason and got.packages == ()


def test_never_and_an_old_dcgm():
    """`never` is kept, and DCGM 3 stands in the way of 4 even under `manage`."""
    assert plan(READY, "never").action == "keep"
    got = plan({**READY, "dcgm": "datacenter-gpu-manager 1:3.3.9"}, "manage")
    assert got.action == "refuse" and "3.3.9 conflicts" in got.reason


@pytest.mark.parametrize(
    ("driver", "device", "cuda"),
    [("580.95.05", "10de:2330", 13), ("550.1.2", "10de:2330", 12), ("580.95.05", "10de:1db1", 12)],
)
def test_the_plug_ins_fit_the_drivers_cuda(driver, device, cuda):
    """All four packages are named, because apt forgets recommended ones; Volta stays with CUDA 12."""
    got = plan({**READY, "driver_version": driver, "nvidia_devices": [device]})
    assert got.action == "install" and len(got.packages) == 4
    assert f"datacenter-gpu-manager-4-proprietary-cuda{cuda}" in got.packages
