"""Facts of the server, from fake /proc and /sys trees and from this very machine."""

import os
import platform
import subprocess

import pytest

from auditor.probes import server_facts
from auditor.probes.engine import cgroup, container, cpuid, tree
from auditor.probes.engine.cpuid import Registers

from .machine_tree import Tree


@pytest.fixture
def root(tmp_path):
    """An empty machine."""
    return Tree(tmp_path)


def facts(found):
    """Facts as {(quantity, conditions…): value}."""
    return {(quantity, *conditions.values()): value for quantity, value, _, conditions in found}


def told(function, *arguments):
    """Values by quantity."""
    return {key[0] if len(key) == 1 else key: value for key, value in facts(function(*arguments)).items()}


# --- from the real machine ---------------------------------------------------------------------------------------


def test_facts_of_this_very_machine_are_true(command):
    """The real probe on this machine: the facts are true, each null has its reason."""
    outcome = command.run("--only", "server_facts", "--device", "cpu")
    row = outcome.rows("server_facts")["server"]
    assert row["status"] == "measured"
    assert outcome.values("server_facts_kernel")["server"] == platform.release()
    assert outcome.values("server_facts_cpus_total")["server"] == len(os.sched_getaffinity(0))
    assert outcome.values("server_facts_memory_bytes")["server"] > 1 << 28
    assert outcome.values("server_facts_interpreter")["server"].endswith(platform.python_version())
    for reading in outcome.record["readings"]:
        if reading["value"] is None:
            assert reading["metric"].replace("server_facts_", "") in row["reason"]


def test_the_cpuid_instruction_agrees_with_the_kernel():
    """The flag that our machine code reads is the one in /proc/cpuinfo."""
    leaf = cpuid.instruction()
    if leaf is None:
        pytest.skip("no CPUID here: another architecture, or no memory for code")
    info = tree.text("/", "proc/cpuinfo") or ""
    assert cpuid.hypervisor_flag(leaf) == (" hypervisor" in info)
    assert cpuid.signature(leaf(0)) in ("Genu" + "ntelineI", "Auth" + "cAMDenti")  # EBX, ECX, EDX: not in reading order
    assert (cpuid.hypervisor(leaf) == "none") <= (not cpuid.hypervisor_flag(leaf))


# --- CPUID -------------------------------------------------------------------------------------------------------


def leaves(**named):
    """A processor that answers these hypervisor leaves; all others like its highest ordinary leaf."""
    flag = named.pop("flag", False)

    def leaf(number):
        text = named.get(f"x{number:08x}")
        if number == 1:
            return Registers(0, 0, (1 << 31) if flag else 0, 0)
        if text is None:
            return Registers(7, 0x340, 0x340, 0)
        raw = text.encode().ljust(12, b"\0")
        return Registers(0x40000001, *(int.from_bytes(raw[i : i + 4], "little") for i in (0, 4, 8)))

    return leaf


@pytest.mark.parametrize(
    ("leaf", "flag", "vendor"),
    [
        (leaves(), False, "none"),
        (leaves(flag=True, x40000000="KVMKVMKVM"), True, "KVMKVMKVM"),
        (leaves(flag=True, x40000000="Microsoft Hv"), True, "Microsoft Hv"),
        (leaves(flag=True, x40000000="Microsoft Hv", x40000100="KVMKVMKVM"), True, "Microsoft Hv, KVMKVMKVM"),
        (leaves(flag=False, x40000000="KVMKVMKVM"), False, "KVMKVMKVM"),  # the flag hidden, the leaf forgotten
        (leaves(flag=True, x40000000="SomethingNew"), True, "SomethingNew"),
        (leaves(flag=True), True, "unnamed"),
        (leaves(flag=True, x40000000="bhyve bhyve "), True, "bhyve bhyve"),
    ],
)
def test_hypervisors_are_named_by_their_leaves(leaf, flag, vendor):
    """Known names in any of the sixteen leaves; an unknown one only where the flag says that there is one."""
    assert cpuid.hypervisor_flag(leaf) == flag
    assert cpuid.hypervisor(leaf) == vendor


def test_without_the_instruction_the_kernel_is_asked(root):
    """The flag from /proc/cpuinfo, the vendor not told; on ARM there is no flag at all."""
    root.write("proc/cpuinfo", "processor : 0\nmodel name\t: X\nmicrocode\t: 0x1\nflags\t\t: fpu hypervisor\n")
    found = told(server_facts.processor, str(root), None)
    assert (found["hypervisor_flag"], found["cpuid_vendor"]) == (True, None)
    assert (found["cpu_model"], found["microcode"], found["cpufreq"]) == ("X", "0x1", "none")
    root.write("proc/cpuinfo", "processor : 0\nCPU implementer : 0x41\nCPU part : 0xd4f\n")
    found = told(server_facts.processor, str(root), None)
    assert (found["hypervisor_flag"], found["cpu_model"]) == (None, "implementer 0x41 part 0xd4f")


def test_sockets_and_nodes_are_counted(root):
    """A node without CPUs (a GB200's GPU memory) is no node of the server."""
    for cpu in range(4):
        root.write(f"sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id", str(cpu // 2))
    for node, cpus in ((0, "0-1"), (1, "2-3"), (2, ""), (3, "")):
        root.write(f"sys/devices/system/node/node{node}/cpulist", cpus)
    found = told(server_facts.processor, str(root), None)
    assert (found["sockets_total"], found["numa_nodes_total"]) == (2, 2)
    empty = told(server_facts.processor, str(root) + "/nothing", None)
    assert (empty["sockets_total"], empty["numa_nodes_total"]) == (None, None)


# --- limits ------------------------------------------------------------------------------------------------------


def test_cgroup_limits_are_the_tightest_on_the_way_up(root):
    """Version 2: a group may be granted less by any group above it."""
    root.write("proc/self/cgroup", "0::/a/b\n")
    root.write("sys/fs/cgroup/a/cpu.max", "150000 100000").write("sys/fs/cgroup/a/b/cpu.max", "max 100000")
    root.write("sys/fs/cgroup/a/memory.max", str(8 << 30)).write("sys/fs/cgroup/a/b/memory.max", "max")
    assert cgroup.cpus(str(root)) == 1.5
    assert cgroup.memory(str(root)) == 8 << 30


def test_cgroup_limits_of_version_1(root):
    """-1 and 2^63 rounded down to a page are no limit."""
    root.write("proc/self/cgroup", "4:memory:/docker/x\n3:cpu,cpuacct:/docker/x\n")
    root.write("sys/fs/cgroup/cpu/docker/x/cpu.cfs_quota_us", "-1")
    root.write("sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes", "9223372036854771712")
    assert cgroup.cpus(str(root)) is None and cgroup.memory(str(root)) is None
    root.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "400000").write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000")
    root.write("sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes", "1073741824")
    assert cgroup.cpus(str(root)) == 4.0 and cgroup.memory(str(root)) == 1 << 30


def test_without_cgroups_nothing_is_limited(root):
    """And nothing is made up."""
    assert cgroup.cpus(str(root)) is None and cgroup.memory(str(root)) is None


# --- guests ------------------------------------------------------------------------------------------------------


def test_firmware_and_devices_of_a_guest(root):
    """DMI text by text, the ACPI maker, the clock, virtual devices, no BMC."""
    root.write("sys/class/dmi/id/sys_vendor", "QEMU\n").write("sys/class/dmi/id/product_name", "Standard PC\n")
    root.write("sys/firmware/acpi/tables/FACP", b"FACP\0\0\0\0\0\0BOCHS BXPC\0\0\0\0tail")
    clock = "sys/devices/system/clocksource/clocksource0/"
    root.write(clock + "current_clocksource", "kvm-clock\n").write(clock + "available_clocksource", "kvm-clock tsc\n")
    root.pci("pci0000:00/0000:00:01.0", vendor="0x1af4", device="0x1041", **{"class": "0x020000"})
    root.pci("pci0000:00/0000:00:00.0", vendor="0x8086", device="0x29c0", **{"class": "0x060000"})
    root.write("sys/kernel/iommu_groups/0/type", "DMA\n").write("sys/kernel/iommu_groups/1/type", "identity\n")
    found = told(server_facts.virtual, str(root))
    assert found["dmi", "sys_vendor"] == "QEMU" and found["dmi", "board_vendor"] is None
    assert found["acpi_oem"] == "BOCHS BXPC"
    assert found["clocksource", "current"] == "kvm-clock"
    assert found["virtual_pci"] == "1af4:1041,8086:29c0"
    assert found["bmc"] is False
    assert found["iommu"] == "DMA,identity"


def test_a_real_server_has_a_bmc_and_no_virtual_device(root):
    """An ASPEED chip or an IPMI node."""
    root.pci("pci0000:00/0000:00:1c.0", vendor="0x1a03", device="0x2000", **{"class": "0x030000"})
    found = told(server_facts.virtual, str(root))
    assert (found["bmc"], found["virtual_pci"], found["acpi_oem"]) == (True, "", None)


# --- containers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "environment", "inside", "word"),
    [
        ({}, {}, False, "none"),
        ({".dockerenv": ""}, {}, False, "none"),  # a machine booted from a container's image
        ({".dockerenv": ""}, {}, True, "docker"),
        ({"run/.containerenv": ""}, {}, True, "podman"),
        ({"proc/1/environ": "container=lxc\0TERM=x\0"}, {}, True, "lxc"),
        ({"proc/1/environ": "container=systemd-nspawn\0"}, {}, True, "other"),
        ({"proc/self/cgroup": "0::/kubepods/besteffort/pod1/x"}, {}, True, "kubernetes"),
        ({"var/run/secrets/kubernetes.io/serviceaccount/token": ""}, {}, True, "kubernetes"),
        ({}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, True, "kubernetes"),
        ({"proc/self/cgroup": "12:cpu:/docker/0123"}, {}, False, "docker"),
        ({}, {}, True, "other"),
    ],
)
def test_containers_by_name(root, files, environment, inside, word):
    """By the marks that runtimes leave; what is only a mark in the file system needs a namespace to go with it."""
    root.namespaces(pid=4026532000 if inside else 4026531836)
    for path, content in files.items():
        root.write(path, content)
    assert container.container(container.Signs(str(root), environment)) == word


def test_the_drivers_process_numbers_are_ours_only_in_the_first_namespace(root):
    """Else they are the machine's, and a kernel that does not say is not trusted to."""
    assert container.first_pid_namespace(str(root)) is False
    root.namespaces()
    assert container.first_pid_namespace(str(root)) is True


@pytest.mark.parametrize(
    ("files", "word"),
    [
        ({}, "none"),
        ({"proc/version": "Linux version 5.15.0-microsoft-standard-WSL2 (x)"}, "wsl2"),
        ({"proc/version": "Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016"}, "gvisor"),
        ({"proc/self/mountinfo": "1 2 0:3 / / rw - virtiofs kataShared rw"}, "kata"),
        ({"sys/firmware/acpi/tables/FACP": b"FACP\0\0\0\0\0\0FIRECKFCVMFADT\0\0"}, "firecracker"),
        ({"proc/cmdline": "console=ttyS0 pci=off virtio_mmio.device=4K@0xd0000000:5"}, "firecracker"),
    ],
)
def test_sandboxes_by_name(root, files, word):
    """What stands between us and the machine."""
    for path, content in files.items():
        root.write(path, content)
    assert container.sandbox(container.Signs(str(root), {})) == word


def test_slices_made_by_software(root):
    """HAMi's variables, library and files, each named; its own setting of a log level proves nothing."""
    assert container.software_slice(container.Signs(str(root), {"LIBCUDA_LOG_LEVEL": "1"})) == "none"
    root.write("etc/ld.so.preload", "/usr/local/vgpu/libvgpu.so\n").write("tmp/vgpulock/lock")
    root.write("proc/1/environ", "CUDA_DEVICE_MEMORY_LIMIT_0=8g\0CUDA_DEVICE_SM_LIMIT=50\0")
    signs = container.Signs(str(root), {})
    found = container.software_slice(signs)
    assert found == "CUDA_DEVICE_MEMORY_LIMIT_0, CUDA_DEVICE_SM_LIMIT, libvgpu.so, /tmp/vgpulock"
    assert container.preload(signs) == "/usr/local/vgpu/libvgpu.so"


@pytest.mark.parametrize(
    ("files", "state", "word"),
    [
        ({}, "active", "unknown"),  # no systemd: nobody to ask
        ({"run/systemd/system/x": ""}, "inactive", "absent"),
        ({"run/systemd/system/x": "", "lib/systemd/system/nvidia-fabricmanager.service": ""}, "inactive", "inactive"),
        ({"run/systemd/system/x": "", "lib/systemd/system/nvidia-fabricmanager.service": ""}, "failed", "failed"),
        ({"run/systemd/system/x": "", "lib/systemd/system/nvidia-fabricmanager.service": ""}, "", "unknown"),
        ({"proc/77/comm": "nv-fabricmanage\n"}, "inactive", "active"),  # the kernel cuts names at 15
    ],
)
def test_the_fabric_manager(root, files, state, word):
    """A process that runs is active; what systemd knows; absent only where its unit is not there."""
    for path, content in files.items():
        root.write(path, content)
    assert container.service(str(root), "nvidia-fabricmanager", "nv-fabricmanager", lambda unit: state) == word


# --- the driver's files ------------------------------------------------------------------------------------------


def driver(root):
    """The driver's files as told."""
    return told(server_facts.driver_files, str(root), lambda unit: "")


def test_the_driver_by_its_files(root):
    """Version by two families, flavour, parameters that matter, GPUs on the bus and their nodes."""
    root.write(
        "proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\nGCC version: 15\n",
    )
    root.write("sys/module/nvidia/version", "580.159.04\n").write("sys/module/nvidia_peermem/refcnt", "0")
    root.write("proc/driver/nvidia/params", 'NvLinkDisable: 1\nUnheardOf: 3\nRegistryDwords: "a=1"\n')
    root.gpu("pci0000:00/0000:00:06.0")
    root.pci("pci0000:00/0000:00:06.1", vendor="0x10de", device="0x22ba", **{"class": "0x040300"})  # its audio
    root.pci("pci0000:00/0000:00:07.0", vendor="0x10de", device="0x22a3", **{"class": "0x068000"})  # an NVSwitch
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        root.write(f"dev/{name}")
    found = driver(root)
    assert found["driver_version"] == "580.159.04" and found["driver_flavour"] == "open"
    assert found["driver_parameter", "NvLinkDisable"] == "1"
    assert found["driver_parameter", "RegistryDwords"] == "a=1"
    assert ("driver_parameter", "UnheardOf") not in found
    assert (found["gpus_on_bus_total"], found["gpu_nodes_total"], found["peermem"]) == (1, 2, True)


@pytest.mark.parametrize(
    ("line", "version", "flavour"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12", "535.183.01", "proprietary"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  570.86.15  Release", "570.86.15", "open"),
    ],
)
def test_both_forms_of_the_version_line(root, line, version, flavour):
    """The old proprietary module writes the architecture in front."""
    root.write("proc/driver/nvidia/version", line)
    assert (driver(root)["driver_version"], driver(root)["driver_flavour"]) == (version, flavour)


def test_a_masked_driver_folder_tells_nothing(root):
    """Containers often lay an empty one over it: no version is made up."""
    found = driver(root)
    assert "driver_version" not in found and "driver_flavour" not in found
    assert (found["gpus_on_bus_total"], found["gpu_nodes_total"]) == (0, 0)


def test_a_script_is_not_nvidia_smi(root, monkeypatch):
    """Packages exist that print a canned table; a program starts with the mark of one."""
    monkeypatch.setenv("PATH", "/opt/bin:/usr/bin")
    assert driver(root)["nvidia_smi"] == "absent"
    root.write("usr/bin/nvidia-smi", b"\x7fELF\x02")
    assert driver(root)["nvidia_smi"] == "elf"
    root.write("opt/bin/nvidia-smi", "#!/usr/bin/env python3\nprint('8 x H100')\n")
    assert driver(root)["nvidia_smi"] == "script"


def test_counts_by_driver_and_bus(command, machine):
    """NVML and CUDA each for itself; a broken CUDA does not hide NVML's count."""
    from tests.nvml_double import healthy

    profile = healthy("a100x8-nvswitch", 3)
    profile["cuda"] = {"visible": [0, 2]}
    double = machine(profile)
    outcome = command.run("--only", "server_facts", on=double)
    assert outcome.values("server_facts_gpus_nvml_total") == {"server": 3}
    assert outcome.values("server_facts_gpus_cuda_total") == {"server": 2}
    assert outcome.values("server_facts_cuda_version") == {"server": "12.4"}
    assert outcome.values("server_facts_nvml_library")["server"].split()[0].endswith("libnvidia-ml.so.1")
    double.change({**profile, "cuda": {"cuInit": 802}})
    outcome = command.run("--only", "server_facts", on=double)
    assert outcome.values("server_facts_gpus_nvml_total") == {"server": 3}
    assert outcome.values("server_facts_gpus_cuda_total") == {}
    assert "CUDA_ERROR_SYSTEM_NOT_READY" in outcome.rows("server_facts")["server"]["reason"]


def test_torch_is_read_from_its_files(tmp_path):
    """Version and CUDA build without importing it: an import takes seconds."""
    folder = tmp_path / "torch"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise RuntimeError('imported')")
    (folder / "version.py").write_text("__version__ = '2.4.0+cu121'\ncuda: Optional[str] = '12.1'\nhip = None\n")
    script = "from auditor.probes.engine import torch_files; print(torch_files.build())"
    path = os.pathsep.join([str(tmp_path), os.getcwd()])  # noqa: PTH109
    ended = subprocess.run(
        ["python3", "-c", script], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}, check=True
    )
    assert ended.stdout.strip() == "('2.4.0+cu121', '12.1')"
