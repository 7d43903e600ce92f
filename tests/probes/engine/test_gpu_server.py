"""The engine on GPU servers that are not there: the NVML double answers, small probes stand in for the real ones."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests import nvml_double
from tests.nvml_double import Machine, edited, healthy

from ..conftest import Command

SEES = """
SCOPE = "gpu"
def run(context):
    import os
    yield context.reading("sees", os.environ["CUDA_VISIBLE_DEVICES"])
    yield context.reading("place", "%d of %d, %d GPUs" % (context.rank, context.ranks, len(context.gpus)))
    yield context.reading("own", context.gpu.uuid)
"""
LOAD = """
SCOPE = "gpu"
ORDER = 60
SECONDS = {"quick": %s}
def run(context):
    import time
    yield context.reading("started", True)
    while context.remaining() > 0:
        time.sleep(0.02)
    yield context.reading("ended", True)
"""
EACH = 'SCOPE = "gpu"\ndef run(context):\n    yield context.reading("ran", True)\n'
ALL = 'SCOPE = "all"\ndef run(context):\n    yield context.reading("ranks", context.ranks)\n'
HOST = 'ORDER = 80\ndef run(context):\n    yield context.reading("ran", True)\n'
FACT = 'ORDER = 10\ndef run(context):\n    yield context.reading("ran", True)\n'


@pytest.mark.parametrize("gpus", [1, 2, 3, 5, 7, 8, 16])
def test_each_worker_sees_its_own_gpu_only(command, machine, gpus):
    """By UUID, whatever the number of GPUs; ranks follow NVML's order."""
    double = machine(healthy("a100x8-nvswitch", gpus))
    outcome = command.probes(sees=SEES, together=ALL).run(on=double, timeout=120)
    uuids = {f"gpu{index}": gpu["nvmlDeviceGetUUID"] for index, gpu in enumerate(double.profile["gpus"])}
    assert outcome.record["device"] == "cuda"
    assert outcome.values("sees_sees") == outcome.values("sees_own") == uuids
    assert outcome.values("sees_place") == {f"gpu{i}": f"{i} of {gpus}, {gpus} GPUs" for i in range(gpus)}
    assert outcome.values("together_ranks") == {"server": gpus}
    subjects = {s["id"]: s for s in outcome.record["subjects"] if s["kind"] == "gpu"}
    assert {name: s["uuid"] for name, s in subjects.items()} == uuids
    assert subjects["gpu0"]["pci"] == "0000:07:00.0" and subjects["gpu0"]["name"] == "NVIDIA A100-SXM4-80GB"


def test_sixteen_gpus_fit_into_one_record(command, machine):
    """All facts of 16 GPUs, 120 pairs and 192 links, by the real probes through the real engine and reader."""
    from auditor import reading as the_reader

    outcome = command.run("--only", "server_facts,gpu_identity,topology,gpu_health", on=machine(healthy(
        "a100x8-nvswitch", 16)))  # fmt: skip
    record = the_reader.read_file(command.out).record
    assert {row.status for row in record.probes} == {"measured"}
    assert len([pair for pair in outcome.values("topology_path") if "nic" not in pair]) == 120
    assert len(outcome.values("topology_link_state")) == 192
    assert len(outcome.values("gpu_identity_uuid")) == 16
    assert command.out.stat().st_size < 4 << 20


def test_mixed_models_in_one_server_are_all_measured(command, machine):
    """Each under its own name."""
    profile = nvml_double.edited(healthy("a100x8-nvswitch", 3), 1, nvmlDeviceGetName="NVIDIA A30")
    outcome = command.probes(each=EACH).run(on=machine(profile))
    assert [s["name"] for s in outcome.record["subjects"] if s["kind"] == "gpu"] == [
        "NVIDIA A100-SXM4-80GB",
        "NVIDIA A30",
        "NVIDIA A100-SXM4-80GB",
    ]
    assert set(outcome.values("each_ran")) == {"gpu0", "gpu1", "gpu2"}


def test_a_gpu_in_mig_mode_is_seen_through_its_instance(command, machine):
    """CUDA can only be pointed at an instance of it."""
    profile = nvml_double.mig(healthy("a100x8-nvswitch", 2), 1)
    seen = command.probes(sees=SEES).run(on=machine(profile)).values("sees_sees")
    assert seen["gpu0"].startswith("GPU-") and seen["gpu1"].startswith("MIG-")


def test_F06_a_lost_gpu_keeps_its_place_and_the_others_go_on(command, machine):
    """Its rows carry the driver's word; a collective without it is not attempted."""
    profile = nvml_double.lost(healthy("a100x8-nvswitch", 3), 1)
    outcome = command.probes(each=EACH, together=ALL).run(on=machine(profile))
    rows = outcome.rows("each")
    assert {subject: row["status"] for subject, row in rows.items()} == {
        "gpu0": "measured",
        "gpu1": "failed",
        "gpu2": "measured",
    }
    assert "gpu_lost" in rows["gpu1"]["reason"]
    assert outcome.rows("together")["server"]["status"] == "skipped"
    assert "gpu1" in outcome.rows("together")["server"]["reason"]


def wait_for(process, metric, times):
    """Read the progress until so many readings of a metric came."""
    for line in process.stderr:
        if '"reading"' in line and metric in line:
            times -= 1
            if not times:
                return
    raise AssertionError(f"{metric} never came")


# --- in the middle: one run, four GPUs, three of them in trouble ---------------------------------------------------


@pytest.fixture(scope="module")
def storm(nvml_libraries, tmp_path_factory):
    """While a load runs, GPU 1 falls off the bus, somebody comes to GPU 2, GPU 3 nears its shutdown."""
    folder = tmp_path_factory.mktemp("storm")
    command, double = Command(folder), Machine(folder / "machine", nvml_libraries, healthy("a100x8-nvswitch", 4))
    tenant = subprocess.Popen(["sleep", "600"])
    process = command.probes(load=LOAD % 6, after=EACH + "ORDER = 70\n").start(on=double)
    try:
        wait_for(process, "load_started", 4)
        profile = nvml_double.used(nvml_double.lost(double.profile, 1), 2, tenant.pid)
        double.change(edited(profile, 3, **{"nvmlDeviceGetTemperature[0]": 91}))
        yield command.ended(process), tenant.pid
    finally:
        command.close()
        tenant.kill()
        tenant.wait()


def test_the_others_finish_whatever_happens_beside_them(storm):
    """One GPU in four is untouched: it is measured to the end, and by the next probe alone."""
    outcome, _ = storm
    assert {s: row["status"] for s, row in outcome.rows("load").items()} == {
        "gpu0": "measured",
        "gpu1": "failed",
        "gpu2": "skipped",
        "gpu3": "failed",
    }
    assert outcome.values("load_started") == dict.fromkeys(("gpu0", "gpu1", "gpu2", "gpu3"), True)
    assert outcome.values("load_ended") == {"gpu0": True}
    assert set(outcome.values("after_ran")) == {"gpu0"}
    assert set(outcome.rows("after")) == {"gpu0", "gpu1", "gpu2", "gpu3"}


def test_F06_a_gpu_lost_in_the_middle_stops_its_own_probe(storm):
    """The watcher sees it within seconds; the row has the driver's word."""
    row = storm[0].rows("load")["gpu1"]
    assert "the driver says gpu_lost since second" in row["reason"] and row["seconds"] < 5


def test_H01_somebody_who_comes_while_we_measure_gets_the_gpu(storm):
    """Our probe is gone within 5 s; the reason says who and when."""
    outcome, pid = storm
    row = outcome.rows("load")["gpu2"]
    assert row["reason"].startswith(f"in use by sleep (pid {pid}, 12.0 GiB) since second") and row["seconds"] < 5


def test_H07_a_gpu_near_its_shutdown_is_given_a_rest(storm):
    """Two degrees below the driver's shutdown the probe ends."""
    row = storm[0].rows("load")["gpu3"]
    assert row["reason"] == "stopped at 91 °C: this GPU shuts down at 92 °C" and row["seconds"] < 5


HOSTS = ("gpu_health", "network_interfaces", "steal_time", "host_cpu", "host_memory", "storage")


def test_a_gpu_lost_among_eight_costs_its_own_figures_only(command, machine):
    """The other seven and everything about the server are all there: figures of the host need no GPU."""
    pytest.importorskip("torch")
    double = machine(healthy("a100x8-nvswitch"))
    process = command.probes(*HOSTS, load=LOAD % 2, after=EACH + "ORDER = 70\n", together=ALL).start(on=double)
    wait_for(process, "load_started", 8)
    double.change(nvml_double.lost(double.profile, 3))
    outcome = command.ended(process, timeout=120)
    others = {f"gpu{index}" for index in range(8)} - {"gpu3"}
    row = outcome.rows("load")["gpu3"]
    assert row["status"] == "failed" and "the driver says gpu_lost since second" in row["reason"]
    assert set(outcome.values("load_ended")) == set(outcome.values("after_ran")) == others
    for key in HOSTS:
        row = outcome.rows(key)["server"]
        assert row["status"] == "measured", row["reason"]
    for metric in ("host_cpu_flops_per_second", "host_memory_bytes_per_second", "storage_bytes_per_second"):
        assert outcome.values(metric)["server"] > 1e6
    assert "steal_time_ratio" in {reading["metric"] for reading in outcome.record["readings"]}
    over_the_audit = {
        reading["subject"]
        for reading in outcome.record["readings"]
        if reading["probe"] == "gpu_health" and reading["with"].get("when") == "audit"
    }
    assert others <= over_the_audit


def test_a_gpu_that_wants_a_reset_is_left_out(command, machine):
    """After an error that ECC could not correct: its row has the driver's word, the others are measured."""
    profile = edited(healthy("a100x8-nvswitch", 3), 1, **{"nvmlDeviceGetTemperature[0]": "ERR GPU requires restart"})
    outcome = command.probes(load=LOAD % 2).run(on=machine(profile))
    rows = outcome.rows("load")
    assert [rows[f"gpu{index}"]["status"] for index in range(3)] == ["measured", "failed", "measured"]
    assert "the driver says reset_required" in rows["gpu1"]["reason"]
    assert set(outcome.values("load_ended")) == {"gpu0", "gpu2"}


NEVER = """
SCOPE = "all"
GRACE = 0.5
SECONDS = {"quick": 0.5}
def run(context):
    import ctypes
    yield context.reading("ranks", context.ranks)
    context.barrier()
    while True:  # inside a library that heeds no signal and keeps Python from running, as a stuck kernel does
        ctypes.PyDLL(None).sleep(600)
"""


def test_a_collective_that_never_returns_is_ended_on_every_gpu(command, machine):
    """No rank has died and none comes back: all are ended at the limit, and fresh ones run the next collective."""
    outcome = command.probes(never=NEVER, later=ALL + "ORDER = 70\n").run(on=machine(healthy("a100x8-nvswitch", 3)))
    row = outcome.rows("never")["server"]
    assert (row["status"], row["reason"]) == ("timed_out", "did not end within 1 s: its worker was ended")
    assert row["seconds"] < 6
    assert outcome.values("never_ranks") == outcome.values("later_ranks") == {"server": 3}


# --- somebody else -----------------------------------------------------------------------------------------------


def test_H01_a_gpu_in_use_is_left_alone(command, machine):
    """No probe, no worker, no context there: its rows name the process; host probes and collectives wait too."""
    tenant = subprocess.Popen(["sleep", "600"])
    profile = nvml_double.used(healthy("a100x8-nvswitch", 3), 1, tenant.pid)
    probes = {"each": EACH, "time_slicing": EACH, "together": ALL, "host": HOST, "fact": FACT}
    try:
        outcome = command.probes(**probes).run(on=machine(profile))
    finally:
        tenant.kill()
        tenant.wait()
    for probe in ("each", "time_slicing"):
        rows = outcome.rows(probe)
        assert rows["gpu0"]["status"] == rows["gpu2"]["status"] == "measured"
        assert rows["gpu1"]["status"] == "skipped"
        assert rows["gpu1"]["reason"] == f"in use by sleep (pid {tenant.pid}, 12.0 GiB)"
    assert outcome.rows("together")["server"]["status"] == outcome.rows("host")["server"]["status"] == "skipped"
    assert outcome.rows("fact")["server"]["status"] == "measured"


def test_allow_busy_measures_it_all_the_same(command, machine):
    """Who asks for it gets it."""
    profile = nvml_double.used(healthy("a100x8-nvswitch", 2), 1, os.getpid())
    outcome = command.probes(each=EACH).run("--allow-busy", on=machine(profile))
    assert set(outcome.values("each_ran")) == {"gpu0", "gpu1"}


def test_memory_in_use_by_nobody_leaves_only_the_watcher_of_time_slices(command, machine):
    """A container that hides its neighbours' processes cannot hide their memory."""
    profile = nvml_double.crowded(healthy("a100x8-nvswitch", 2), 1)
    outcome = command.probes(each=EACH, time_slicing=EACH).run(on=machine(profile))
    row = outcome.rows("each")["gpu1"]
    assert (row["status"], row["reason"]) == ("skipped", "12.0 GiB in use without a visible process")
    assert set(outcome.values("time_slicing_ran")) == {"gpu0", "gpu1"}


def test_load_without_a_process_leaves_only_the_watcher_of_time_slices(command, machine):
    """Seen while the workers start: two seconds of load that nobody owns to."""
    profile = nvml_double.edited(
        healthy("a100x8-nvswitch", 2), 1, nvmlDeviceGetUtilizationRates={"gpu": 97, "memory": 40}
    )
    slow = "ORDER = 10\nSECONDS = {'quick': 4}\ndef run(context):\n    import time\n    time.sleep(2.6)\n"
    outcome = command.probes(slow=slow, each=EACH, time_slicing=EACH).run(on=machine(profile))
    row = outcome.rows("each")["gpu1"]
    assert (row["status"], row["reason"]) == ("skipped", "97 % load without a visible process")
    assert set(outcome.values("time_slicing_ran")) == {"gpu0", "gpu1"}


def test_H01_memory_that_goes_while_we_measure_is_noticed_before_the_next_load(command, machine):
    """A tenant whose processes are hidden: what is in use beyond ours keeps the next probe away."""
    double = machine(healthy("a100x8-nvswitch", 2))
    process = command.probes(load=LOAD % 3, after=EACH + "ORDER = 70\n").start(on=double)
    wait_for(process, "load_started", 2)
    double.change(nvml_double.crowded(double.profile, 1, 20 << 30))
    outcome = command.ended(process)
    row = outcome.rows("after")["gpu1"]
    assert row["status"] == "skipped" and "without a visible process" in row["reason"]
    assert set(outcome.values("after_ran")) == {"gpu0"}


def test_our_own_idle_workers_are_no_strangers(command, machine):
    """Their contexts take memory: that much more than before us is ours."""
    double = machine(healthy("a100x8-nvswitch", 2))
    process = command.probes(load=LOAD % 2, after=EACH + "ORDER = 70\n").start(on=double)
    wait_for(process, "load_started", 2)
    double.change(nvml_double.crowded(double.profile, 1, 1 << 30))
    assert set(command.ended(process).values("after_ran")) == {"gpu0", "gpu1"}


def test_no_permission_to_list_processes_is_no_obstacle(command, machine):
    """As in many containers: then memory and load decide."""
    profile = nvml_double.edited(
        healthy("a100x8-nvswitch", 2), None, nvmlDeviceGetComputeRunningProcesses="ERR Insufficient Permissions"
    )
    assert set(command.probes(each=EACH).run(on=machine(profile)).values("each_ran")) == {"gpu0", "gpu1"}


def test_CUDA_VISIBLE_DEVICES_of_the_caller_is_obeyed(command, machine):
    """What a scheduler granted is measured, the rest is named and left alone."""
    profile = healthy("a100x8-nvswitch", 3)
    profile["cuda"] = {"visible": [2]}
    outcome = command.probes(each=EACH).run(on=machine(profile), CUDA_VISIBLE_DEVICES="2")
    assert set(outcome.values("each_ran")) == {"gpu2"}
    assert outcome.rows("each")["gpu0"]["reason"] == "not in CUDA_VISIBLE_DEVICES=2"


# --- drivers that do not work ------------------------------------------------------------------------------------


def test_a_driver_without_a_gpu_measures_the_cpu(command, machine):
    """NVML answers and counts none: it is a CPU server."""
    profile = healthy("a100x8-nvswitch", 0)
    outcome = command.probes(each=EACH, fact=FACT).run(on=machine(profile))
    assert outcome.code == 0 and outcome.record["device"] == "cpu"
    assert outcome.values("each_ran") == {"server": True}


def test_cuda_asked_for_where_there_is_none_is_a_row(command):
    """No driver, no GPU, --device cuda: the record says so."""
    outcome = command.probes(each=EACH, fact=FACT).run("--device", "cuda")
    row = outcome.rows("each")["server"]
    assert (row["status"], row["reason"]) == ("failed", "no NVIDIA GPU can be used here: library_not_found")
    assert outcome.rows("fact")["server"]["status"] == "measured"


@pytest.mark.parametrize("word", ["Driver Not Loaded", "Driver/library version mismatch"])
def test_a_driver_that_refuses_is_told(command, machine, word):
    """Its own word stands in the progress; the audit goes on with what there is."""
    profile = healthy("a100x8-nvswitch")
    profile["system"]["nvmlInit"] = f"ERR {word}"
    outcome = command.probes(each=EACH).run("--device", "cuda", on=machine(profile))
    told = {"Driver Not Loaded": "driver_not_loaded"}.get(word, "driver_mismatch")
    assert told in outcome.rows("each")["server"]["reason"]
    assert any(told in event.get("text", "") for event in outcome.events)


def test_F04_a_driver_that_hangs_costs_its_time_limit_and_no_more(command, machine):
    """NVML and CUDA both never return: the audit goes on, nothing of ours is left hanging."""
    profile = {**healthy("a100x8-nvswitch"), "cuda": {"cuInit": "HANG"}}
    profile["system"]["nvmlInit"] = "HANG"
    began = time.monotonic()
    asks = "ORDER = 10\ndef run(context):\n    yield context.reading('refusal', context.cuda()['refusal'])\n"
    process = command.probes(asks=asks, each=EACH).start("--device", "cuda", "--budget", "3", on=machine(profile))
    outcome = command.ended(process)
    assert time.monotonic() - began < 12
    assert outcome.code == 0
    assert "no answer within 3 s" in outcome.rows("each")["server"]["reason"]


def test_a_watcher_that_dies_is_replaced(command, machine):
    """Samples go on; the probe that looks at them notices a gap at most."""
    probe = """
    SCOPE = "gpu"
    SECONDS = {"quick": 20.0}
    def run(context):
        import time
        with context.sampling() as samples:
            time.sleep(2.5)
        yield context.reading("late", sum(row.t > time.monotonic() - 1.0 for row in samples.rows))
    """
    double = machine(healthy("h200x1-guest"))
    process = command.probes(samples=probe).start(on=double)
    wait_for_running(process)
    for pid in os.listdir("/proc"):  # noqa: PTH208
        if pid.isdigit() and b"watcher" in cmdline(pid) and parent(pid) == process.pid:
            os.kill(int(pid), signal.SIGKILL)
    assert command.ended(process).values("samples_late")["gpu0"] >= 5


def wait_for_running(process):
    """Read the progress until a probe runs."""
    for line in process.stderr:
        if '"running"' in line:
            return


def cmdline(pid):
    """A process's command line."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return b""


def parent(pid):
    """A process's parent."""
    from auditor.probes.engine import process_tree

    entry = process_tree.entry(int(pid))
    return entry.parent if entry else None


# --- samples -----------------------------------------------------------------------------------------------------


SAMPLES = """
SCOPE = "gpu"
SECONDS = {"quick": 5.0}
def run(context):
    import time
    with context.sampling() as samples:
        began = time.monotonic()
        time.sleep(1.2)
        ended = time.monotonic()
    yield context.reading("hertz", samples.hertz)
    yield context.reading("inside", all(began - 0.3 <= row.t <= ended + 0.3 for row in samples.rows))
    row = samples.rows[-1]
    for name in row._fields[1:]:
        yield context.reading(name, getattr(row, name), source="driver/nvml")
    context.note("what this driver does not tell")
"""


def test_samples_come_at_ten_hertz_or_more(command, machine):
    """All values of every GPU, taken by another process, in this probe's own clock."""
    double = machine(healthy("h200x1-guest"))
    outcome = command.probes(samples=SAMPLES).run(on=double)
    assert outcome.values("samples_hertz")["gpu0"] >= 10
    assert outcome.values("samples_inside") == {"gpu0": True}
    expected = {
        "gpu_celsius": 42,
        "memory_celsius": 45,
        "watts": 84.517,
        "sm_clock_hertz": 495e6,
        "memory_clock_hertz": 3201e6,
        "event_reasons": 1,
    }
    assert {metric: outcome.values(f"samples_{metric}")["gpu0"] for metric in expected} == expected
    assert outcome.values("samples_nvlink_bytes") == {"gpu0": None}
    assert outcome.values("samples_pcie_rx")["gpu0"] == pytest.approx(566e3)
    assert any(event["event"] == "sample" and event["watts"] == 84.517 for event in outcome.events)


def test_samples_without_new_calls_use_the_old_ones(command, nvml_libraries, tmp_path):
    """A driver of the past has no event reasons and no fields: power and temperature still come."""
    libraries = nvml_double.build(
        tmp_path / "old", ["nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetFieldValues"]
    )
    double = Machine(tmp_path / "machine", libraries, healthy("h200x1-guest"))
    outcome = command.probes(samples=SAMPLES).run(on=double)
    assert outcome.values("samples_event_reasons") == {"gpu0": 1}
    assert outcome.values("samples_watts") == {"gpu0": 120.642}
    assert outcome.values("samples_memory_celsius") == {"gpu0": None}


def test_turns_and_barriers_across_gpus(command, machine):
    """One at a time, in order of index; a barrier opens although one worker died on the way to it."""
    probe = """
    SCOPE = "gpu"
    SECONDS = {"quick": 20.0}
    def run(context):
        import os, time
        if context.gpu.index == 1:
            os._exit(7)
        context.barrier()
        with context.turn():
            began = time.monotonic()
            time.sleep(0.1)
            ended = time.monotonic()
        agreed = context.agree(context.gpu.index == 2)
        yield context.reading("began", began)
        yield context.reading("ended", ended)
        yield context.reading("agreed", agreed)
    """
    outcome = command.probes(turns=probe).run(on=machine(healthy("a100x8-nvswitch", 4)))
    assert outcome.rows("turns")["gpu1"]["status"] == "failed"
    began, ended = outcome.values("turns_began"), outcome.values("turns_ended")
    assert ended["gpu0"] <= began["gpu2"] and ended["gpu2"] <= began["gpu3"]
    assert outcome.values("turns_agreed") == {"gpu0": True, "gpu2": True, "gpu3": True}


def test_the_process_that_sees_several_gpus_sees_the_free_ones(command, machine):
    """A pair probe runs once, with all GPUs; with one GPU it does not apply."""
    probe = "SCOPE = 'pair'\ndef run(context):\n    import os\n"
    probe += "    yield context.reading('sees', os.environ['CUDA_VISIBLE_DEVICES'].count('GPU-'))\n"
    command.probes(pairs=probe)
    double = machine(healthy("a100x8-nvswitch", 3))
    assert command.run(on=double).values("pairs_sees") == {"server": 3}
    double.change(healthy("h200x1-guest"))
    row = command.run(on=double).rows("pairs")["server"]
    assert (row["status"], row["reason"]) == ("not_applicable", "needs two GPUs")


def test_no_worker_is_left_for_a_diagnostic_that_wants_whole_gpus(command, machine):
    """A probe without workers finds no process of ours on the GPUs; later probes get fresh ones."""
    probe = """
    WORKERS = False
    ORDER = 90
    def run(context):
        import os
        mine = open("/proc/self/stat").read().rpartition(")")[2].split()[1]
        siblings = [pid for pid in os.listdir("/proc") if pid.isdigit() and pid != str(os.getpid())]
        words = [open("/proc/%s/cmdline" % pid, "rb").read() for pid in siblings
                 if os.path.exists("/proc/%s/stat" % pid)
                 and open("/proc/%s/stat" % pid).read().rpartition(")")[2].split()[1] == mine]
        yield context.reading("workers", sum(b"worker" in word for word in words))
    """
    outcome = command.probes(each=EACH, whole=probe).run(on=machine(healthy("a100x8-nvswitch", 2)))
    assert outcome.values("whole_workers") == {"server": 0}


NEEDS_TORCH = 'NEEDS = ("torch",)\n'


def test_torch_without_cuda_is_told_before_anything_is_imported(command, machine):
    """The rows name the build and the interpreter; facts are measured all the same."""
    pytest.importorskip("torch")
    import torch

    if torch.version.cuda is not None:
        pytest.skip("this torch has CUDA")
    outcome = command.probes(each=NEEDS_TORCH + EACH, fact=FACT).run(on=machine(healthy("a100x8-nvswitch", 2)))
    row = outcome.rows("each")["server"]
    assert row["status"] == "skipped"
    assert "built without CUDA" in row["reason"] and sys.executable in row["reason"]
    assert outcome.rows("fact")["server"]["status"] == "measured"


def test_torch_that_cannot_use_the_driver_is_told(command, machine, tmp_path):
    """A torch for a newer CUDA than the driver's raises when its context opens: that sentence stands in the rows."""
    fake = tmp_path / "site" / "torch"
    fake.mkdir(parents=True)
    (fake / "version.py").write_text("__version__ = '9.9+cu999'\ncuda = '99.9'\n")
    (fake / "__init__.py").write_text(
        "from . import version\n__version__ = version.__version__\n"
        "def zeros(*a, **k):\n    raise RuntimeError('The NVIDIA driver on your system is too old (found 12040).')\n"
    )
    double = machine(healthy("a100x8-nvswitch", 2))
    command.probes(each=NEEDS_TORCH + EACH)
    outcome = command.run(on=double, PYTHONPATH=f"{command._tree}{os.pathsep}{fake.parent}")
    rows = outcome.rows("each")
    assert set(rows) == {"gpu0", "gpu1"}
    assert all(
        row["status"] == "failed" and "driver on your system is too old" in row["reason"] for row in rows.values()
    )


OUT_OF_MEMORY = """
SCOPE = "gpu"
NEEDS = ("torch",)
def run(context):
    import os, torch
    yield context.reading("pid", os.getpid())
    if context.rank == 0:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 80")
"""


def test_out_of_memory_costs_its_own_row_and_its_process(command, machine, tmp_path):
    """The sentence stands in the row; what an error may have left in the process goes with it, on that GPU alone."""
    fake = tmp_path / "site" / "torch"
    fake.mkdir(parents=True)
    (fake / "version.py").write_text("__version__ = '9.9+cu128'\ncuda = '12.8'\n")
    (fake / "__init__.py").write_text(
        "from . import cuda, version\n__version__ = version.__version__\n"
        "class OutOfMemoryError(RuntimeError):\n    pass\n"
        "def zeros(*a, **k):\n    pass\n"
    )
    (fake / "cuda.py").write_text(
        "def synchronize():\n    pass\ndef is_initialized():\n    return True\ndef empty_cache():\n    pass\n"
    )
    command.probes(full=OUT_OF_MEMORY, later=OUT_OF_MEMORY.replace("context.rank == 0", "False") + "ORDER = 70\n")
    outcome = command.run(
        on=machine(healthy("a100x8-nvswitch", 2)), PYTHONPATH=f"{command._tree}{os.pathsep}{fake.parent}"
    )
    rows = outcome.rows("full")
    assert (rows["gpu0"]["status"], rows["gpu1"]["status"]) == ("failed", "measured")
    assert rows["gpu0"]["reason"].startswith("OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB")
    before, after = outcome.values("full_pid"), outcome.values("later_pid")
    assert before["gpu0"] != after["gpu0"] and before["gpu1"] == after["gpu1"]


def test_the_context_is_opened_while_torch_is_read(command, machine, tmp_path):
    """torch finds its GPU's primary context there already: the two waits of the start lie side by side."""
    fake = tmp_path / "site" / "torch"
    fake.mkdir(parents=True)
    (fake / "version.py").write_text("__version__ = '9.9+cu128'\ncuda = '12.8'\n")
    (fake / "__init__.py").write_text(
        "import ctypes\nfrom . import cuda, version\n__version__ = version.__version__\n"
        "def zeros(*a, **k):\n"
        "    flags, active = ctypes.c_uint(), ctypes.c_int()\n"
        "    library = ctypes.CDLL('libcuda.so.1')\n"
        "    assert library.cuDevicePrimaryCtxGetState(0, ctypes.byref(flags), ctypes.byref(active)) == 0\n"
        "    assert active.value == 1, 'no context yet'\n"
    )
    (fake / "cuda.py").write_text("def synchronize():\n    pass\ndef is_initialized():\n    return False\n")
    command.probes(each=NEEDS_TORCH + EACH)
    outcome = command.run(
        on=machine(healthy("a100x8-nvswitch", 2)), PYTHONPATH=f"{command._tree}{os.pathsep}{fake.parent}"
    )
    assert outcome.values("each_ran") == {"gpu0": True, "gpu1": True}, outcome.rows("each")


def test_a_torch_that_kills_its_process_is_tried_twice_and_no_more(command, machine, tmp_path):
    """Each probe would cost an import; after the second death its seat stays empty."""
    fake = tmp_path / "site" / "torch"
    fake.mkdir(parents=True)
    (fake / "version.py").write_text("__version__ = '9.9+cu999'\ncuda = '99.9'\n")
    (fake / "__init__.py").write_text("import os\nos.write(1, b'x\\n')\nos.abort()\n")
    command.probes(a=NEEDS_TORCH + EACH, b=NEEDS_TORCH + EACH, c=NEEDS_TORCH + EACH)
    outcome = command.run(on=machine(healthy("h200x1-guest")), PYTHONPATH=f"{command._tree}{os.pathsep}{fake.parent}")
    assert all(outcome.rows(key)["gpu0"]["status"] == "failed" for key in "abc")
    assert all("SIGABRT" in outcome.rows(key)["gpu0"]["reason"] for key in "abc")
