"""The probe outlives its SSH connection; it and all it started are found again and ended, nobody else (threat H04)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible.module_utils import detached, guest_folder
from ansible.module_utils.detached import Identity

_SLEEPER = "import time; time.sleep(300)"
_PARENT = (
    f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', '{_SLEEPER}'], start_new_session=True).wait()"
)
_DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); open('ready', 'w'); time.sleep(300)"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of the audit's; what still runs for it ends with the test."""
    made = guest_folder.make()
    yield made
    detached.end(None, made, 0)
    guest_folder.remove(made)


def start(code: str, folder: Path) -> Identity:
    """A Python that runs this code as the probe would."""
    return detached.start([sys.executable, "-c", code], folder, {"PATH": os.environ["PATH"]})


def family(folder: Path, size: int) -> list[int]:
    """Our processes, once there are so many."""
    limit = time.monotonic() + 20
    while len(pids := detached._marked(folder)) < size and time.monotonic() < limit:
        time.sleep(0.02)
    return pids


def test_it_runs_in_a_session_of_its_own(folder: Path) -> None:
    """No terminal, no parent that matters; alive by pid and start time."""
    who = start(_SLEEPER, folder)
    assert os.getsid(who.pid) == who.pid
    assert detached.alive(who)
    assert not detached.alive(who._replace(ticks=who.ticks + 1))
    assert not detached.alive(who._replace(boot="another"))


def test_a_stop_in_the_first_instant_is_heard(folder: Path) -> None:
    """SIGTERM that comes before the program listens waits for it; here nothing stays held back."""
    code = (
        "import signal; heard = []; signal.signal(signal.SIGTERM, lambda *_: heard.append(1)); "
        "signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM}); open('heard', 'w').write(str(heard))"
    )
    who = start(code, folder)
    os.kill(who.pid, signal.SIGTERM)
    os.waitpid(who.pid, 0)
    assert (folder / "heard").read_text() == "[1]"
    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_H03_a_child_that_left_the_session_is_ended_too(folder: Path) -> None:
    """Known by our folder's name in its environment."""
    who = start(_PARENT, folder)
    pids = family(folder, 2)
    assert len(pids) == 2
    assert detached.end(who, folder, grace=0.1) == []
    assert not any(Path(f"/proc/{pid}").exists() and detached._state(pid) != "Z" for pid in pids)


def test_one_that_will_not_listen_is_killed(folder: Path) -> None:
    """SIGTERM first, then SIGKILL."""
    who = start(_DEAF, folder)
    limit = time.monotonic() + 20
    while not (folder / "ready").exists() and time.monotonic() < limit:
        time.sleep(0.02)
    assert detached.end(who, folder, grace=0.2) == []
    assert not detached.alive(who)


def test_H04_a_strangers_process_lives_on(folder: Path) -> None:
    """Same program, same words, not ours."""
    decoy = subprocess.Popen([sys.executable, "-c", _SLEEPER, str(folder)])
    try:
        detached.end(start(_SLEEPER, folder), folder, grace=0.1)
        assert decoy.poll() is None
    finally:
        decoy.kill()
        decoy.wait()


def gone(path: Path) -> bool:
    """Whether it goes within the time a person would wait."""
    limit = time.monotonic() + 20
    while path.exists() and time.monotonic() < limit:
        time.sleep(0.02)
    return not path.exists()


def test_the_timer_ends_and_removes_what_nobody_collected(folder: Path, tmp_path: Path) -> None:
    """When its time is over: the probe and its children, our folder, a torch of ours; a link's target stays."""
    torch, precious = tmp_path / "torch", tmp_path / "precious"
    for made in (torch, precious):
        made.mkdir()
    (precious / "file").write_text("not ours")
    (folder / "link").symlink_to(precious)
    start(_PARENT, folder)
    pids = family(folder, 2)
    detached.start_timer(folder, 0.3, [torch])
    assert gone(folder) and gone(torch)
    assert not any(Path(f"/proc/{pid}").exists() and detached._state(pid) not in ("Z", "") for pid in pids)
    assert (precious / "file").read_text() == "not ours"


def test_the_timer_ends_with_the_audit(folder: Path) -> None:
    """It carries our mark: ending the audit ends it, and no process of ours waits on."""
    detached.start_timer(folder, 600)
    assert len(family(folder, 2)) == 2
    assert detached.end(None, folder, grace=0) == []
    assert detached._marked(folder) == []
