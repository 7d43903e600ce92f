"""One audit, end to end, with small probes that misbehave: whatever they do becomes a row, and nothing is left."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from auditor import reading as the_reader
from auditor.probes.engine import audit, stop
from auditor.reading import Read

GOOD = """
def run(context):
    yield context.reading("seconds", 1.5, n=3, size=8)
"""


def until(process, *words, seconds=30.0):
    """Read stderr until a line holds all words; returns what was read."""
    read, limit = "", time.monotonic() + seconds
    while time.monotonic() < limit:
        line = process.stderr.readline()
        read += line
        if all(word in line for word in words) or not line:
            return read
    raise AssertionError(f"never said {words}: {read}")


def descendants(pid):
    """All live processes below one."""
    from auditor.probes.engine import process_tree

    return {process.pid for process in process_tree.descendants(pid)}


def alive(pids):
    """Those that still run."""
    from auditor.probes.engine import process_tree

    return {pid for pid in pids if (entry := process_tree.entry(pid)) is not None and entry.state != "Z"}


def wait_gone(pids, seconds=5.0):
    """The processes that outlive a grace."""
    limit = time.monotonic() + seconds
    while alive(pids) and time.monotonic() < limit:
        time.sleep(0.02)
    return alive(pids)


def listeners(pids):
    """Listening sockets of these processes."""
    lines = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout.splitlines()
    return [line for line in lines if any(f"pid={pid}," in line for pid in pids)]


def test_a_record_holds_what_was_measured(command):
    """Readings, rows, subjects, seconds: and the one reader accepts it."""
    outcome = command.probes(good=GOOD).run("--device", "cpu", "--run", "R1", "--nonce", "ab12")
    assert outcome.code == 0
    accepted = the_reader.read_file(command.out)
    assert isinstance(accepted, Read) and accepted.unknown_keys == 0
    record = accepted.record
    assert (record.run, record.server, record.profile, record.device) == ("R1", "gpu-01", "quick", "cpu")
    assert (record.nonce, record.synthetic, record.tool.name) == ("ab12", False, "auditor-probe")
    (found,) = record.readings
    assert (found.metric, found.subject, found.value, found.n) == ("good_seconds", "server", 1.5, 3)
    assert found.conditions == {"size": 8}
    (row,) = record.probes
    assert (row.probe, row.status, row.method, row.reason) == ("good", "measured", 1, None)
    assert 0 <= record.seconds.measuring <= record.seconds.total
    assert record.seconds.fixed <= record.seconds.total


def test_the_nonce_seeds_the_data(command):
    """Every run with one nonce has the same seed; without a nonce it is random."""
    probe = "def run(context):\n    yield context.reading('seed', context.seed)\n"
    outcome = command.probes(seeded=probe).run("--device", "cpu", "--nonce", "aa")
    assert outcome.values("seeded_seed")["server"] == audit.seed("aa") != audit.seed("ab")
    assert audit.seed(None) != audit.seed(None)


def test_F11_a_probe_that_raises_costs_its_own_row(command):
    """One line of reason, the trace in the attachments, what was yielded before is kept, the next probe runs."""
    raises = GOOD + "    raise ValueError('no such figure\\nsecond line')\n"
    outcome = command.probes(bad=raises, good=GOOD + "ORDER = 60\n").run("--device", "cpu")
    assert outcome.code == 0
    row = outcome.rows("bad")["server"]
    assert (row["status"], row["reason"]) == ("failed", "ValueError: no such figure")
    assert outcome.values("bad_seconds") == {"server": 1.5}
    assert "no such figure" in outcome.record["attachments"]["trace-bad-server.txt"]
    assert outcome.rows("good")["server"]["status"] == "measured"


def test_a_probe_says_where_it_does_not_apply(command):
    """A reason is not_applicable, with `skipped: ` in front it is skipped."""
    outcome = command.probes(
        never="def applies(context):\n    return 'no such device'\n",
        later="def applies(context):\n    return 'skipped: the disk is full'\n",
        gpus="DEVICES = ('cuda',)\n",
    ).run("--device", "cpu")
    found = {key: (outcome.rows(key)["server"]["status"], outcome.rows(key)["server"]["reason"]) for key in
             ("never", "later", "gpus")}  # fmt: skip
    assert found == {
        "never": ("not_applicable", "no such device"),
        "later": ("skipped", "the disk is full"),
        "gpus": ("not_applicable", "needs an NVIDIA GPU"),
    }


KILLED = """
SCOPE = "gpu"
def run(context):
    import os, signal
    yield context.reading("seconds", 1.5)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_worker_that_is_killed_costs_one_row(command):
    """What it had told is kept, the row says how it ended, a fresh worker runs the next probe."""
    after = 'SCOPE = "gpu"\nORDER = 60\n' + GOOD
    outcome = command.probes(bad=KILLED, good=after).run("--device", "cpu")
    row = outcome.rows("bad")["server"]
    assert row["status"] == "failed" and "SIGKILL" in row["reason"]
    assert outcome.values("bad_seconds") == {"server": 1.5}
    assert outcome.rows("good")["server"]["status"] == "measured"


def test_a_crash_tells_its_last_words(command):
    """What a library printed before it aborted stands in the reason."""
    crash = """
    def run(context):
        import os
        os.write(2, b"terminate called: CUDA error: an illegal memory access\\n")
        os.abort()
        yield
    """
    row = command.probes(bad=crash).run("--device", "cpu").rows("bad")["server"]
    assert row["status"] == "failed"
    assert "SIGABRT" in row["reason"] and "an illegal memory access" in row["reason"]


HANGS = """
GRACE = 0.5
SECONDS = dict.fromkeys(("quick",), 0.5)
def run(context):
    import os, signal, subprocess, sys, time
    yield context.reading("seconds", 1.5)
    escaped = "import os, time\\nos.setsid()\\nif os.fork(): os._exit(0)\\nos.setsid()\\ntime.sleep(600)"
    for environment in (None, {}):
        child = subprocess.Popen([sys.executable, "-c", escaped], env=environment, stderr=subprocess.DEVNULL)
        child.wait()
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    while True:
        time.sleep(1)
"""


def test_F04_a_probe_that_hangs_is_ended_with_all_it_started(command):
    """Also children in sessions of their own, handed to init, with an empty environment; then the audit goes on."""
    before = {path.name for path in Path("/proc").iterdir()}
    outcome = command.probes(bad=HANGS, good=GOOD + "ORDER = 60\n").run("--device", "cpu")
    row = outcome.rows("bad")["server"]
    assert row["status"] == "timed_out" and "did not end within 1 s" in row["reason"]
    assert row["seconds"] < 5
    assert outcome.values("bad_seconds") == {"server": 1.5}
    assert outcome.rows("good")["server"]["status"] == "measured"
    left = [path for path in Path("/proc").iterdir() if path.name.isdigit() and path.name not in before]
    assert not [path for path in left if b"600" in read(path / "cmdline")]


def read(path):
    """A file's bytes; nothing where it has gone."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.fixture
def freezer():
    """A control group whose processes can be put into a sleep that no signal ends (cgroup version 1)."""
    group = Path("/sys/fs/cgroup/freezer/auditor-test")
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no freezer here: {error.strerror}")
    yield group
    (group / "freezer.state").write_text("THAWED")
    wait_gone({int(pid) for pid in (group / "tasks").read_text().split()}, 10)
    group.rmdir()


def test_F04_a_process_that_cannot_be_killed_is_told_and_left(command, freezer):
    """In uninterruptible sleep, as under a sick driver: the audit goes on, its record names the process."""
    stuck = f"""
    GRACE = 0.5
    SECONDS = {{"quick": 0.5}}
    def run(context):
        import os, time
        yield context.reading("pid", os.getpid())
        open("{freezer}/tasks", "w").write(str(os.getpid()))
        open("{freezer}/freezer.state", "w").write("FROZEN")
        time.sleep(600)
    """
    began = time.monotonic()
    outcome = command.probes(stuck=stuck, good=GOOD + "ORDER = 60\n").run("--device", "cpu")
    pid = outcome.values("stuck_pid")["server"]
    row = outcome.rows("stuck")["server"]
    assert row["status"] == "timed_out"
    assert f"process {pid} (python, state D) cannot be ended" in row["reason"]
    assert outcome.rows("good")["server"]["status"] == "measured"
    assert time.monotonic() - began < 30


def test_H04_a_stranger_with_our_name_survives(command, tmp_path):
    """Only what descends from us is ended, whatever it is called."""
    decoy = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "auditor.probes", "--as", "worker"])
    try:
        command.probes(bad=HANGS).run("--device", "cpu")
        assert decoy.poll() is None
    finally:
        decoy.kill()
        decoy.wait()


def test_a_worker_that_is_stopped_counts_as_hung(command):
    """A process in SIGSTOP neither answers nor ends by SIGTERM."""
    stops = "GRACE = 0.5\nSECONDS = {'quick': 0.5}\ndef run(context):\n    import os, signal\n"
    stops += "    os.kill(os.getpid(), signal.SIGSTOP)\n    yield\n"
    row = command.probes(bad=stops).run("--device", "cpu").rows("bad")["server"]
    assert row["status"] == "timed_out"


BOTH = """
SCOPE = "all"
GRACE = 1.0
SECONDS = dict.fromkeys(("quick",), 1.0)
def run(context):
    import os, signal
    context.barrier()
    if context.rank == 1:
        os.kill(os.getpid(), %s)
    context.barrier()
    while %s:
        pass
    yield context.reading("ranks", context.ranks)
"""


@pytest.mark.parametrize(
    ("number", "spins", "status"), [("signal.SIGKILL", "True", "failed"), ("signal.SIGSTOP", "True", "timed_out")]
)
def test_F05_a_collective_ends_with_its_first_dead_rank(command, number, spins, status):
    """The others cannot go on without it: all are replaced, and the next collective has all ranks again."""
    good = 'SCOPE = "all"\nORDER = 60\ndef run(context):\n    context.barrier()\n'
    good += '    yield context.reading("ranks", context.ranks)\n'
    outcome = command.probes(bad=BOTH % (number, spins), good=good).run("--device", "cpu")
    assert [row["status"] for row in outcome.record["probes"]] == [status, "measured"]
    assert outcome.values("good_ranks") == {"server": 2}


def test_ranks_meet_through_a_file_of_their_own(command):
    """The rendezvous is a path in a folder that is empty at the start, the same for both ranks."""
    probe = """
    SCOPE = "all"
    def run(context):
        import os
        assert not os.listdir(os.path.dirname(context.rendezvous))
        context.barrier()
        with open(context.rendezvous, "a") as file:
            file.write("x")
        context.barrier()
        yield context.reading("size", os.path.getsize(context.rendezvous))
    """
    assert command.probes(meets=probe).run("--device", "cpu").values("meets_size") == {"server": 2}


def test_what_earlier_probes_found_is_known_to_later_ones(command):
    """Across scopes and processes, by metric, subject and conditions."""
    probe = """
    SCOPE = "gpu"
    ORDER = 60
    def run(context):
        yield context.reading("seen", context.known("good_seconds", size=8))
        yield context.reading("unseen", context.known("good_seconds", size=9))
        context.note("unseen: no such size")
    """
    outcome = command.probes(good=GOOD, knows=probe).run("--device", "cpu")
    assert outcome.values("knows_seen") == {"server": 1.5}
    assert outcome.values("knows_unseen") == {"server": None}
    assert outcome.rows("knows")["server"]["reason"] == "unseen: no such size"


def test_the_second_half_runs_after_all_probes_in_the_same_process(command):
    """`finish` sees what `run` left in its module, and tells what happened in between."""
    counts = """
    ORDER = 15
    STATE = []
    def run(context):
        STATE.append(1)
        yield context.reading("when", "before")
    def finish(context):
        yield context.reading("when", "after" if STATE and context.known("good_seconds") else "lost", at="end")
    """
    outcome = command.probes(counts=counts, good=GOOD).run("--device", "cpu")
    assert [r["value"] for r in outcome.record["readings"]] == ["before", 1.5, "after"]
    assert outcome.rows("counts")["server"]["cut"] == []


def test_a_second_half_without_its_first_is_told(command):
    """Where the process that began was replaced there is nothing to compare with."""
    first = "ORDER = 15\ndef run(context):\n    yield context.reading('when', 'before')\n"
    first += "def finish(context):\n    yield context.reading('when', 'after')\n"
    dies = "ORDER = 16\ndef run(context):\n    import os\n    os._exit(3)\n    yield\n"
    outcome = command.probes(first=first, dies=dies).run("--device", "cpu")
    assert outcome.values("first_when") == {"server": "before"}
    assert "replaced" in outcome.rows("first")["server"]["cut"][0]


def test_the_latest_of_two_readings_with_one_identity_counts(command):
    """A soak tells its figures again and again."""
    probe = "def run(context):\n    yield context.reading('x', 1)\n    yield context.reading('x', 2)\n"
    outcome = command.probes(soaks=probe).run("--device", "cpu")
    assert [row["value"] for row in outcome.record["readings"]] == [2]


def test_a_figure_that_is_no_number_becomes_null_with_a_reason(command):
    """NaN and infinity cannot stand in a record, but that they came out is told."""
    probe = "def run(context):\n    yield context.reading('ratio', float('nan'), spread=float('inf'))\n"
    outcome = command.probes(odd=probe).run("--device", "cpu")
    assert outcome.values("odd_ratio") == {"server": None}
    assert outcome.rows("odd")["server"]["reason"] == "ratio was nan"


# --- being asked to end ------------------------------------------------------------------------------------------


SLEEPS = """
SECONDS = {"quick": 60.0}
def run(context):
    import time
    yield context.reading("seconds", 1.5)
    while context.remaining() > 0:
        time.sleep(0.02)
    yield context.reading("late", True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_audit_with_a_record(command, number):
    """What is there is kept, also what a probe tells when its time is suddenly over; the rest is timed_out."""
    process = command.probes(sleeps=SLEEPS, good=GOOD + "ORDER = 60\n").start("--device", "cpu")
    until(process, '"reading"')
    process.send_signal(number)
    outcome = command.ended(process, timeout=10)
    assert outcome.code == 0
    reason = f"stopped by {number.name}"
    assert {row["probe"]: (row["status"], row["reason"]) for row in outcome.record["probes"]} == {
        "sleeps": ("timed_out", reason),
        "good": ("timed_out", reason),
    }
    assert outcome.values("sleeps_seconds") == {"server": 1.5}
    assert outcome.values("sleeps_late") == {"server": True}


def test_a_stop_does_not_wait_for_a_second_half_that_hangs(command):
    """Who stops us kills after half a minute: the record is there long before."""
    hangs = "ORDER = 15\nSECONDS = {'quick': 60.0}\ndef run(context):\n    yield context.reading('when', 'before')\n"
    hangs += "def finish(context):\n    import time\n    time.sleep(600)\n    yield\n"
    process = command.probes(hangs=hangs, sleeps=SLEEPS).start("--device", "cpu")
    until(process, '"reading"', "sleeps")
    began = time.monotonic()
    process.terminate()
    outcome = command.ended(process)
    assert time.monotonic() - began < 15
    assert outcome.values("hangs_when") == {"server": "before"}
    assert "did not end within 4 s" in outcome.rows("hangs")["server"]["cut"][0]


def _hears(pid, number):
    """Whether the process has a handler for the signal: the kernel's own mask of caught ones."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(caught >> (number - 1) & 1)


@contextmanager
def held_back():
    """What is started inside gets no stop before it says that it listens: Python itself takes its time to start."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, stop.SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def stopped_early(command, outcome, name):
    """A whole record whose rows say why it is empty, and nothing else on the disk."""
    assert outcome.code == 0
    assert isinstance(the_reader.read_file(command.out), Read)
    row = outcome.rows("slow")["server"]
    assert (row["status"], row["reason"]) == ("timed_out", f"stopped by {name} before anything was measured")
    assert outcome.record["readings"] == []
    assert {path.name for path in command.folder.iterdir()} == {"tree", "tmp", "record.json"}
    assert list(command.temporary.iterdir()) == []


SLOW_START = "import time\ntime.sleep(0.6)\n"  # while the probes' files are read


@pytest.mark.parametrize(
    ("seconds", "number"),
    [(0.0, signal.SIGTERM), (0.05, signal.SIGINT), (0.1, signal.SIGTERM), (0.3, signal.SIGINT), (0.3, signal.SIGTERM)],
)
def test_a_stop_in_the_first_moments_gives_a_record(command, seconds, number):
    """Whether Python, the engine or the probes' files are being read just then."""
    command.probes(slow=SLOW_START + GOOD)
    with held_back():
        process = command.start("--device", "cpu")
    time.sleep(seconds)  # the moment of the stop is what is tested
    tree = descendants(process.pid)
    process.send_signal(number)
    stopped_early(command, command.ended(process, timeout=20), number.name)
    assert wait_gone(tree) == set()


def test_a_stop_is_heard_before_the_engine_is_read(command):
    """The first of the larger files finds the handlers in place: whoever starts us need not hold anything back."""
    command.probes(slow=GOOD)
    records = command._tree / "auditor" / "records.py"
    source = records.read_text()
    records.unlink()
    ours = "os.getpid() == int(os.environ['AUDIT'] or 0) or os.kill(os.getpid(), signal.SIGTERM)"
    records.write_text(source.replace("from __future__", f"{ours}\nfrom __future__"))
    records.write_text(
        source + "\nimport os, signal, sys\n'--as' in sys.argv or os.kill(os.getpid(), signal.SIGTERM)\n"
    )
    stopped_early(command, command.run("--device", "cpu"), "SIGTERM")


def test_sigterm_before_the_first_probe_still_gives_a_record(command):
    """The start is the longest time without any row."""
    process = command.probes(good=GOOD).start("--device", "cpu")
    while not _hears(process.pid, signal.SIGTERM):
        time.sleep(0.005)
    process.send_signal(signal.SIGTERM)
    outcome = command.ended(process, timeout=20)
    assert outcome.code == 0
    assert outcome.rows("good")["server"]["status"] in ("timed_out", "measured")


@pytest.mark.parametrize("ending", ["well", "SIGTERM", "worker killed", "parent killed"])
def test_H03_nothing_is_left(command, ending):
    """No process, no file but the record, no listener: however it ends."""
    locks = set(Path("/run/lock").glob("*auditor*"))
    seconds = "4.0" if ending == "well" else "60.0"  # long enough to be looked at on a busy machine
    process = command.probes(sleeps=SLEEPS.replace("60.0", seconds)).start("--device", "cpu")
    until(process, '"reading"')
    tree = descendants(process.pid)
    assert tree
    assert listeners({process.pid, *tree}) == []
    if ending == "SIGTERM":
        process.terminate()
    elif ending == "worker killed":
        for pid in tree:
            os.kill(pid, signal.SIGKILL)
    elif ending == "parent killed":
        process.kill()
    process.communicate(timeout=20)
    assert wait_gone(tree) == set()
    left = {path.name for path in command.folder.iterdir()} - {"tree", "tmp", "record.json"}
    if ending == "parent killed":  # what it could not remove, the next audit does
        command.run("--device", "cpu", "--budget", "1")
        left = {path.name for path in command.folder.iterdir()} - {"tree", "tmp", "record.json"}
    assert left == set()
    assert list(command.temporary.iterdir()) == []
    assert set(Path("/run/lock").glob("*auditor*")) <= locks


def test_F08_the_probe_dies_before_the_customers_work(command):
    """When memory runs out the kernel should choose the audit: its score is raised, its workers' too."""
    probe = "def run(context):\n    yield context.reading('score', int(open('/proc/self/oom_score_adj').read()))\n"
    assert command.probes(scored=probe).run("--device", "cpu").values("scored_score")["server"] >= 500


def test_C10_the_environment_keeps_everything_on_loopback(command):
    """Collectives meet on lo, NCCL's own listener is off, NVLS is left as found."""
    names = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "NCCL_RAS_ENABLE", "NCCL_NVLS_ENABLE", "CUDA_DEVICE_ORDER")
    probe = "SCOPE = 'gpu'\ndef run(context):\n    import os\n"
    probe += f"    for name in {names!r}:\n        yield context.reading(name.lower(), os.environ.get(name, 'unset'))\n"
    outcome = command.probes(env=probe).run("--device", "cpu")
    found = [row["value"] for row in outcome.record["readings"]]
    assert found == ["lo", "lo", "0", "unset", "PCI_BUS_ID"]


# --- budget --------------------------------------------------------------------------------------------------------


def test_a_budget_is_shared_and_what_it_cuts_is_told(command):
    """Each probe gets its share; what it leaves out stands in its row."""
    probe = """
    ORDER = %d
    SECONDS = {"quick": 10.0}
    def run(context):
        yield context.reading("share", context.remaining())
        context.cut("the long part")
    """
    outcome = command.probes(a=probe % 50, b=probe % 51).run("--device", "cpu", "--budget", "4")
    assert 0.5 < outcome.values("a_share")["server"] < 2.1
    assert 0.5 < outcome.values("b_share")["server"] < 4.0
    assert outcome.rows("a")["server"]["cut"] == ["the long part"]


def test_a_budget_shorter_than_the_start_is_a_sentence(command):
    """The record is written; its rows say what was too short and what to do."""
    outcome = command.probes(good=GOOD).run("--device", "cpu", "--budget", "0.01")
    assert outcome.code == 0
    row = outcome.rows("good")["server"]
    assert row["status"] == "skipped"
    assert "the budget of 0.01 s is shorter than the start" in row["reason"]
    assert "the budget of 0.01 s is shorter than the start" in outcome.sentence


# --- one at a time ---------------------------------------------------------------------------------------------------


def test_H02_the_second_audit_says_who_is_there_and_leaves_nothing(command):
    """Exit code 3, the run and the pid of the first in the sentence, no file touched."""
    process = command.probes(sleeps=SLEEPS).start("--device", "cpu", "--run", "FIRST")
    until(process, '"reading"')
    second = command.run("--device", "cpu", "--run", "SECOND")
    assert second.code == 3
    assert "FIRST" in second.sentence and str(process.pid) in second.sentence
    assert second.record is None
    process.terminate()
    assert command.ended(process).record["run"] == "FIRST"


def test_status_says_how_far_it_is(command):
    """A small file, whole at any time: pid, step, percent, figures; at the end the exit code."""
    import json

    status = command.folder / "status.json"
    process = command.probes(sleeps=SLEEPS).start("--device", "cpu", "--run", "R1", "--status", str(status))
    until(process, '"reading"')
    limit = time.monotonic() + 10
    while "sleeps_seconds" not in (told := json.loads(status.read_text()))["figures"] and time.monotonic() < limit:
        time.sleep(0.05)
    assert (told["pid"], told["run"], told["server"], told["step"]) == (process.pid, "R1", "gpu-01", "sleeps")
    assert told["finished"] is False and told["exit"] is None and 0 <= told["percent"] < 100
    assert told["figures"] == {"sleeps_seconds": 1.5}
    process.terminate()
    command.ended(process)
    told = json.loads(status.read_text())
    assert (told["finished"], told["exit"], told["percent"]) == (True, 0, 100)
    assert status.stat().st_size <= 4096


def test_nobody_has_to_listen(command):
    """A closed stderr costs nothing but the progress."""
    process = command.probes(good=GOOD).start("--device", "cpu")
    process.stderr.close()
    process.stdout.close()
    assert process.wait(20) == 0
    assert command.out.exists()


def test_no_listener_is_opened_by_the_engine(command):
    """Its processes speak over socket pairs; no port, no path."""
    probe = """
    def run(context):
        import os
        text = open("/proc/net/tcp").read() + open("/proc/net/tcp6").read()
        inodes = {line.split()[9] for line in text.splitlines()[1:] if line.split()[3] == "0A"}
        links = [os.readlink("/proc/self/fd/" + fd) for fd in os.listdir("/proc/self/fd") if fd.isdigit()
                 and os.path.lexists("/proc/self/fd/" + fd)]
        yield context.reading("listeners", sum(link[8:-1] in inodes for link in links if link.startswith("socket")))
    """
    assert command.probes(looks=probe).run("--device", "cpu").values("looks_listeners") == {"server": 0}
    assert socket.AF_UNIX  # what is used instead
