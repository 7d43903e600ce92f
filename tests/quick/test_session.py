"""One server's audit over real sshd: what comes back, and what stays behind (nothing)."""

from __future__ import annotations

import re
import stat
import time
from pathlib import Path

import pytest

from auditor import reading
from auditor.quick import conversation, session
from auditor.quick.connect import SshLink
from auditor.quick.events import Figure, Sample, Step
from tests.quick.conftest import NONCE, Machine

pytestmark = pytest.mark.fleet

# Answers as a Python 3.6 does to the two questions that are asked before anything is started.
OLD_PYTHON = """#!/bin/sh
case "$2" in
*"version_info<"*) exit 1;;
*"version_info[:2]"*) echo 3.6;;
*) echo "SyntaxError: future feature annotations is not defined" >&2; exit 1;;
esac
"""


def test_a_whole_audit_leaves_nothing(machine: Machine) -> None:
    """Record kept, figures told, no process and no file left."""
    outcome = machine.audit()
    assert (outcome.phase, outcome.reason) == ("done", None)
    read = reading.read_bytes(machine.kept[0])
    assert isinstance(read, reading.Read) and read.record.nonce == NONCE
    assert sum(isinstance(event, Figure) for event in machine.events) == 5
    assert sum(isinstance(event, Sample) for event in machine.events) == 4
    assert outcome.details["interpreter"] == "/opt/venv/bin/python3.11"
    assert machine.leftovers() == []


def test_the_first_words_come_within_three_seconds(machine: Machine) -> None:
    """Issue 5: first line on the screen less than 3 s after connecting."""
    began = time.monotonic()
    told: list[float] = []
    machine.when(Step, 2, lambda: told.append(time.monotonic() - began))
    machine.audit()
    assert told[0] < 3


def test_stop_ends_the_probe_within_two_seconds_and_keeps_what_there_is(machine: Machine) -> None:
    """Ctrl-C in mid-probe: a partial record, nothing left."""
    told: list[float] = []
    machine.when(Figure, 2, lambda: (told.append(time.monotonic()), machine.stop.set()))
    outcome = machine.audit("long")
    assert time.monotonic() - told[0] < 2.5
    assert (outcome.phase, outcome.reason) == ("measure", "stopped")
    read = reading.read_bytes(machine.kept[0])
    assert isinstance(read, reading.Read)
    assert read.record.probes[0].status == "timed_out"
    assert machine.leftovers() == []


def test_stop_also_ends_a_probe_that_does_not_listen(machine: Machine) -> None:
    """A probe deaf to SIGTERM, with a child in a session of its own: both are gone, no record came."""
    machine.when(Figure, 1, machine.stop.set)
    began = time.monotonic()
    outcome = machine.audit("deaf")
    assert time.monotonic() - began < 6
    assert (outcome.reason, machine.kept) == ("stopped", [])
    assert machine.leftovers() == []


def test_stop_keeps_what_there_is_though_a_worker_does_not_end(machine: Machine) -> None:
    """The workers are killed within 2 s; the probe gets the time to write down what they measured."""
    machine.when(Figure, 4, machine.stop.set)
    outcome = machine.audit("waits")
    assert (outcome.phase, outcome.reason) == ("measure", "stopped")
    read = reading.read_bytes(machine.kept[0])
    assert isinstance(read, reading.Read) and len(read.record.readings) >= 4
    assert machine.leftovers() == []


def test_stop_before_anything_is_started(machine: Machine) -> None:
    """Ctrl-C while connecting starts nothing."""
    machine.stop.set()
    assert machine.audit().reason == "stopped"
    assert machine.leftovers() == []


def test_stop_at_a_question(machine: Machine) -> None:
    """Ctrl-C at the password prompt is a stop, not a refused login."""

    def link() -> SshLink:
        machine.stop.set()
        return machine.link(key=machine.fleet.folder / "no-such-key", options=("IdentityAgent=none",))

    outcome = machine.audit(open_link=link)
    assert (outcome.phase, outcome.reason) == ("reach", "stopped")


def test_a_cut_connection_is_picked_up_again(machine: Machine) -> None:
    """The probe goes on, the next connection brings the rest and the record; no figure is lost or told twice."""

    def cut() -> None:
        machine.fleet.fault(machine.name, "kick")
        (machine.root / "tmp/stub-gate").touch()

    machine.when(Figure, 2, cut)
    outcome = machine.audit("long")
    assert (outcome.phase, outcome.reason) == ("done", None)
    assert "connection lost" in machine.steps() and "the probe went on" in machine.steps()
    figures = [event.reading.conditions.get("n") for event in machine.events if isinstance(event, Figure)]
    assert figures == [None, 0, 1024, 2048, 3072]
    assert machine.leftovers() == []


def test_connections_that_die_all_the_time(machine: Machine) -> None:
    """Every connection dies a second after it opened: the audit still comes to its end."""
    machine.fleet.fault(machine.name, "drop", 1.0)
    machine.when(Step, 6, (machine.root / "tmp/stub-gate").touch)
    outcome = machine.audit("long")
    assert outcome.phase == "done"
    machine.fleet.heal(machine.name)
    assert machine.leftovers() == []


def test_a_controller_that_never_comes_back_leaves_nothing(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut and gone: the probe ends, the record waits its time, then everything goes by itself."""
    monkeypatch.setattr(session, "RECONNECT_SECONDS", 0.5)
    machine.when(Figure, 2, lambda: machine.fleet.fault(machine.name, "mute"))
    machine.when(Figure, 2, lambda: machine.fleet.fault(machine.name, "kick"))
    outcome = machine.audit("long", open_link=lambda: machine.link(seconds=1.0), limit=1.0, linger=0.5)
    assert outcome.reason == "connection_lost"
    machine.fleet.heal(machine.name)
    end = time.monotonic() + 8
    while machine.leftovers() and time.monotonic() < end:
        time.sleep(0.1)
    assert machine.leftovers() == []


def test_a_server_that_was_restarted_says_so(machine: Machine) -> None:
    """Power cut in mid-probe: the folder is gone, the reason is told."""

    def power_cut() -> None:
        machine.fleet.reboot(machine.name)

    machine.when(Figure, 2, power_cut)
    outcome = machine.audit("long")
    assert (outcome.phase, outcome.reason) == ("measure", "vanished")


def test_a_server_that_freezes_is_left_after_its_time(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """C06: silence in mid-probe ends in an outcome, not in waiting."""
    monkeypatch.setattr(conversation, "SILENCE_SECONDS", 1.2)
    monkeypatch.setattr(session, "RECONNECT_SECONDS", 1.0)
    machine.when(Figure, 2, lambda: machine.fleet.fault(machine.name, "freeze"))
    began = time.monotonic()
    outcome = machine.audit("long", open_link=lambda: machine.link(seconds=1.0))
    assert outcome.reason == "connection_lost"
    assert time.monotonic() - began < 12


@pytest.mark.parametrize(
    ("only", "phase", "reason", "words"),
    [
        ("crash", "measure", "no_record", "ended with code 3.*the stub fell over"),
        ("killed", "measure", "probe_died", "killed from outside"),
        ("huge", "collect", "record_refused", "more than 8 MiB"),
    ],
)
def test_probes_that_end_badly(machine: Machine, only: str, phase: str, reason: str, words: str) -> None:
    """A probe without a usable record is a reason and a sentence, and nothing stays."""
    outcome = machine.audit(only)
    assert (outcome.phase, outcome.reason) == (phase, reason)
    assert re.search(words, outcome.detail or "")
    assert machine.leftovers() == []


def test_C05_a_probe_that_floods_its_progress_is_bounded(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of megabytes of progress end the conversation; the keeper cuts the file on its side."""
    monkeypatch.setattr("auditor.quick.frames._TOTAL_LIMIT", 4 << 20)
    outcome = machine.audit("chatter", limit=1.0, linger=0.3)
    assert outcome.reason == "flooded"
    end = time.monotonic() + 8
    while machine.leftovers() and time.monotonic() < end:
        time.sleep(0.1)
    assert machine.leftovers() == []


def test_H02_a_second_audit_is_told_who_is_there(machine: Machine) -> None:
    """One audit at a time; the second touches nothing."""
    second: list[object] = []

    def try_too() -> None:
        other = Machine(machine.fleet, machine.name, Path("/dev/null"))
        other.probe = machine.probe
        second.append(other.audit(run="20261201T000001Z", nonce="11" * 16))
        (machine.root / "tmp/stub-gate").touch()

    machine.when(Figure, 2, try_too)
    assert machine.audit("long").phase == "done"
    (outcome,) = second
    assert outcome.reason == "busy" and "20261201T000000Z" in outcome.detail  # type: ignore[attr-defined]


def shell(machine: Machine, text: str) -> None:
    """Give the user a login shell of one's own making."""
    path = machine.root / "usr/local/bin/shell"
    path.write_text(text)
    path.chmod(0o755)
    passwd = machine.root / "etc/passwd"
    passwd.write_text(passwd.read_text().replace("/home/ubuntu:/bin/bash", "/home/ubuntu:/usr/local/bin/shell"))


def test_banners_and_noise_do_not_matter(machine: Machine) -> None:
    """MOTD, a chatty .bashrc on both outputs, text without a newline: the audit is the same."""
    machine.append("etc/ssh/sshd_config", "Banner /etc/passwd\n")
    rc = machine.root / "home/ubuntu/.bashrc"
    rc.write_text("echo Welcome; seq 2000; echo Warning >&2; printf 'no newline'\n")
    assert machine.audit().phase == "done"
    assert machine.leftovers() == []


def test_a_bashrc_that_fails_but_goes_on(machine: Machine) -> None:
    """Errors in a start-up file are noise."""
    (machine.root / "home/ubuntu/.bashrc").write_text("no-such-command\nif then fi\nfalse\n")
    assert machine.audit().phase == "done"


def test_a_bashrc_that_ends_the_shell_is_a_sentence(machine: Machine) -> None:
    """Nothing can run there; what it said last is quoted."""
    (machine.root / "home/ubuntu/.bashrc").write_text("echo 'module: command not found' >&2\nexit 1\n")
    outcome = machine.audit()
    assert (outcome.phase, outcome.reason) == ("start", "no_shell")
    assert '"module: command not found"' in (outcome.detail or "")


def test_a_user_who_may_not_log_in(machine: Machine) -> None:
    """Clouds answer root with a sentence; that sentence is passed on."""
    shell(
        machine, '#!/bin/sh\necho "Please login as the user \\"ubuntu\\" rather than the user \\"root\\"."\nexit 142\n'
    )
    outcome = machine.audit()
    assert outcome.reason == "no_shell" and "Please login as the user" in (outcome.detail or "")


def test_C05_a_shell_that_prints_for_ever(machine: Machine) -> None:
    """A flood ends after a mebibyte, with a sentence."""
    shell(machine, "#!/bin/sh\nexec yes flood\n")
    began = time.monotonic()
    outcome = machine.audit()
    assert outcome.reason == "flooded" and "MiB" in (outcome.detail or "")
    assert time.monotonic() - began < 10


def test_C06_a_shell_that_never_ends(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence has an end, a byte now and then does not prolong it."""
    monkeypatch.setattr(conversation, "HELLO_SECONDS", 1.0)
    shell(machine, "#!/bin/sh\nwhile :; do printf .; sleep 0.3; done\n")
    began = time.monotonic()
    outcome = machine.audit()
    assert (outcome.reason, outcome.phase) == ("no_shell", "start")
    assert "neither ran our command nor ended" in (outcome.detail or "")
    assert time.monotonic() - began < 6


def test_without_any_python(machine: Machine) -> None:
    """The reason is the server's, asked with a shell alone."""
    machine.inside("mount", "-t", "tmpfs", "none", "/opt/venv")
    machine.fleet.fault(machine.name, "nopython")
    outcome = machine.audit()
    assert (outcome.phase, outcome.reason) == ("start", "no_python")
    assert "3.8 or newer is needed" in (outcome.detail or "")


def test_with_python_3_6_only(machine: Machine) -> None:
    """The version that is there and the one that is needed stand in the sentence."""
    machine.inside("mount", "-t", "tmpfs", "none", "/opt/venv")
    machine.fleet.fault(machine.name, "nopython")
    old = machine.root / "usr/local/bin/python3"
    old.write_text(OLD_PYTHON)
    old.chmod(0o755)
    outcome = machine.audit()
    assert (outcome.phase, outcome.reason) == ("start", "old_python")
    assert "3.6" in (outcome.detail or "") and "3.8 is needed" in (outcome.detail or "")


def test_noexec_tmp(machine: Machine) -> None:
    """A /tmp where nothing may be executed does not matter: Python reads its program."""
    machine.inside("mount", "-t", "tmpfs", "-o", "noexec", "none", "/tmp")
    assert machine.audit().phase == "done"


def test_one_writable_directory(machine: Machine) -> None:
    """Where only one folder of the machine can be written, it is found and used."""
    (machine.root / "etc/ssh/keys").write_text((machine.fleet.folder / "id_ed25519.pub").read_text())
    machine.append("etc/ssh/sshd_config", "AuthorizedKeysFile /etc/ssh/keys\n")
    for place in ("/tmp", "/var/tmp", "/dev/shm", "/home/ubuntu", "/run/lock"):
        machine.inside("mount", "-t", "tmpfs", "-o", "ro", "none", place)
    machine.inside("sh", "-c", "mkdir /scratch && chmod 1777 /scratch")
    seen: list[str] = []

    def look() -> None:
        seen.extend(path.name for path in (machine.root / "scratch").iterdir())
        machine.stop.set()

    machine.when(Figure, 1, look)
    assert machine.audit("long").reason == "stopped"
    assert len(machine.kept) == 1
    assert "auditor-probe.lock" in seen and len(seen) == 2
    assert list((machine.root / "scratch").iterdir()) == []


def test_no_writable_place_at_all_is_a_sentence(machine: Machine) -> None:
    """A named directory that cannot be written is told by its name."""
    outcome = machine.audit(directory="/proc")
    assert (outcome.phase, outcome.reason) == ("start", "not_writable")
    assert "/proc" in (outcome.detail or "") and "--remote-dir" in (outcome.detail or "")


def test_a_full_disk_is_told_as_such(machine: Machine) -> None:
    """Not "not writable" and no traceback."""
    machine.fleet.fault(machine.name, "diskfull")
    outcome = machine.audit()
    assert (outcome.phase, outcome.reason) == ("start", "disk_full")
    machine.fleet.heal(machine.name)
    assert machine.leftovers() == []


def test_a_server_without_sftp(machine: Machine) -> None:
    """Nothing here needs sftp."""
    config = machine.root / "etc/ssh/sshd_config"
    config.write_text(config.read_text().replace("Subsystem sftp internal-sftp\n", ""))
    assert machine.audit().phase == "done"


def test_without_torch_the_machine_is_still_looked_at(machine: Machine) -> None:
    """The system's Python runs the probe file, the outcome says what is missing."""
    machine.inside("mount", "-t", "tmpfs", "none", "/opt/venv")
    outcome = machine.audit()
    assert (outcome.phase, outcome.reason) == ("done", "no_torch")
    assert outcome.details["interpreter"] == "/usr/bin/python3"
    assert outcome.details["bringer"] in ("venv", "pip", "nothing")
    assert len(machine.kept) == 1


def test_the_folder_is_private_while_it_lives(machine: Machine) -> None:
    """Mode 0700, an unpredictable name, the probe file's bytes in it."""
    seen: list[tuple[str, int]] = []

    def look() -> None:
        for path in (machine.root / "tmp").glob("auditor-*"):
            seen.append((path.name, stat.S_IMODE(path.stat().st_mode)))
        (machine.root / "tmp/stub-gate").touch()

    machine.when(Figure, 2, look)
    machine.audit("long")
    ((name, mode),) = seen
    assert mode == 0o700 and len(name) == len("auditor-") + 16


def test_C01_the_server_sees_neither_agent_nor_environment(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Agent socket, locale and variables of ours do not arrive, whatever the configuration says."""
    monkeypatch.setenv("SSH_AUTH_SOCK", "/tmp/no-such-agent")
    monkeypatch.setenv("LC_CANARY", "canary")
    config = machine.fleet.folder / "forwarding_config"
    config.write_text(
        (machine.fleet.folder / "ssh_config").read_text()
        + "  ForwardAgent yes\n  ForwardX11 yes\n  SendEnv LC_*\n  SetEnv LC_OWN=canary\n"
        + "  LocalForward 127.0.0.1:1 127.0.0.1:2\n  RemoteForward 127.0.0.1:3 127.0.0.1:4\n  PermitLocalCommand yes\n"
        + f"  LocalCommand touch {machine.fleet.folder}/local-command\n"
    )
    machine.append("etc/ssh/sshd_config", "AcceptEnv LC_*\nAllowAgentForwarding yes\n")
    (machine.root / "home/ubuntu/.bashrc").write_text("env > /tmp/env\n")
    machine.config = config
    assert machine.audit().phase == "done"
    env = (machine.root / "tmp/env").read_text()
    assert "HOME=/home/ubuntu" in env
    assert not [word for word in ("SSH_AUTH_SOCK", "DISPLAY", "canary") if word in env]
    assert not (machine.fleet.folder / "local-command").exists()
