"""The fleet itself: machines that are separate, break on demand, and leave nothing."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from tests.fleet import Fleet

pytestmark = pytest.mark.fleet


def out(done: subprocess.CompletedProcess[str]) -> str:
    """What a command printed, once it is known to have worked."""
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_machines_are_separate(fleet: Fleet) -> None:
    """Files, processes and names of one machine are seen by no other and not by the controller."""
    assert [out(fleet.ssh(name, "hostname")) for name in fleet.names[:3]] == ["h001", "h002", "h003"]
    out(fleet.ssh("h001", "echo mine | sudo tee /etc/mark /opt/mark /var/mark /usr/local/mark"))
    for folder in ("etc", "opt", "var", "usr/local"):
        assert fleet.root("h001").joinpath(folder, "mark").read_text() == "mine\n"
        assert fleet.ssh("h002", f"cat /{folder}/mark").returncode == 1
        assert not Path("/", folder, "mark").exists()
    assert int(out(fleet.ssh("h001", "ls -d /proc/[0-9]* | wc -l"))) < 12
    assert out(fleet.ssh("h001", "ls /home; tail -n +2 /proc/net/route")) == "ubuntu"
    assert str(fleet.folder) not in Path("/proc/mounts").read_text()
    out(fleet.ssh("h001", "sudo rm /etc/mark /opt/mark /var/mark /usr/local/mark"))


def test_login_is_by_key_only_and_sudo_works(fleet: Fleet) -> None:
    """A password is never asked for, root is one sudo away."""
    who = out(fleet.ssh("h001", "id -un; sudo -n id -un; sudo -n sudo -n -u nobody id -un"))
    assert who.split() == ["ubuntu", "root", "nobody"]
    config = ["-F", str(fleet.folder / "ssh_config"), "-o", "BatchMode=yes", "-o", "PubkeyAuthentication=no"]
    done = subprocess.run(["ssh", *config, "h001", "true"], capture_output=True, text=True)
    assert done.returncode == 255 and "Permission denied (publickey)" in done.stderr


def test_down_and_heal(fleet: Fleet) -> None:
    """A machine that is down refuses; healed, it answers; the others never notice."""
    fleet.fault("h002", "down")
    done = fleet.ssh("h002", "true")
    assert done.returncode == 255 and "Connection refused" in done.stderr
    assert fleet.ssh("h001", "true").returncode == 0
    fleet.heal("h002")
    assert fleet.ssh("h002", "true").returncode == 0


def test_drop_kills_connections_and_kick_spares_the_job(fleet: Fleet) -> None:
    """A cut connection ends the ssh client, not what was started on the machine."""
    fleet.fault("h001", "drop", 0.5)
    assert fleet.ssh("h001", "sleep 20").returncode == 255
    fleet.heal("h001")
    fleet.fault("h001", "kick", on="[s]leep 1.25")
    done = fleet.ssh("h001", "(sleep 1.25; echo ok >/tmp/survived) >/dev/null 2>&1; echo done")
    assert done.returncode == 255
    assert out(fleet.ssh("h001", "until [ -s /tmp/survived ]; do sleep 0.1; done; cat /tmp/survived")) == "ok"


def test_refuse_counts_down(fleet: Fleet) -> None:
    """Exactly so many connections are refused."""
    fleet.fault("h001", "refuse", 2)
    assert [fleet.ssh("h001", "true").returncode for _ in range(3)] == [255, 255, 0]


def test_slow_and_latency(fleet: Fleet) -> None:
    """A poor link takes the time it should."""
    fleet.fault("h001", "slow", 200)
    begin = time.monotonic()
    assert len(out(fleet.ssh("h001", "head -c 200000 /dev/zero | tr '\\0' x"))) == 200000
    assert time.monotonic() - begin > 0.9
    fleet.heal("h001")
    fleet.fault("h001", "latency", 50)
    begin = time.monotonic()
    assert out(fleet.ssh("h001", "echo hi")) == "hi"
    assert time.monotonic() - begin > 0.5  # five round trips at least


def test_disk_full(fleet: Fleet) -> None:
    """Not one byte fits, until it is healed."""
    fleet.fault("h001", "diskfull")
    done = fleet.ssh("h001", "head -c 1000000 /dev/zero >/tmp/big")
    assert done.returncode == 1 and "No space left" in done.stderr
    fleet.heal("h001")
    out(fleet.ssh("h001", "head -c 1000000 /dev/zero >/tmp/big; rm /tmp/big"))


def test_nosudo_nopython_rekey(fleet: Fleet) -> None:
    """Files that a fault took away come back byte for byte."""
    before = out(fleet.ssh("h001", "sha256sum /usr/bin/python3 /etc/ssh/*.pub"))
    for fault in ("nosudo", "nopython", "rekey"):
        fleet.fault("h001", fault)
    done = fleet.ssh("h001", "true")
    assert done.returncode == 255 and "HOST IDENTIFICATION HAS CHANGED" in done.stderr
    fleet.heal("h001", "rekey")
    done = fleet.ssh("h001", "sudo -n true")
    assert done.returncode == 1 and "password is required" in done.stderr
    assert fleet.ssh("h001", "/usr/bin/python3 -V").returncode == 127
    fleet.heal("h001")
    assert out(fleet.ssh("h001", "sha256sum /usr/bin/python3 /etc/ssh/*.pub")) == before
    assert out(fleet.ssh("h001", "sudo -n /usr/bin/python3 -c 'print(6*7)'")) == "42"


def test_heal_disarms_a_waiting_fault(fleet: Fleet) -> None:
    """A fault that waited for a process is gone after healing."""
    fleet.fault("h001", "down", on="[s]leep 0.75")
    fleet.heal("h001")
    out(fleet.ssh("h001", "sleep 0.75"))


def test_bad_requests_are_refused(fleet: Fleet) -> None:
    """An unknown fault, an unknown machine, a missing value, a second fleet in one folder: an error each."""
    for args in (("h001", "nosuch"), ("h999", "down"), ("h001", "drop")):
        with pytest.raises((ValueError, RuntimeError)):
            fleet.fault(*args)
    with pytest.raises(RuntimeError, match="runs already"):
        Fleet(1, fleet.folder).start()


def test_planted_files_reboot_and_a_stop_that_leaves_nothing(tmp_path: Path, fleet_net: str) -> None:
    """Copies are private, binds are read-only, a reboot empties the disk, a stop ends every process."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'GPU 0: NVIDIA H200'\n")
    tool.chmod(0o755)
    deep = tmp_path / ("x" * 90)  # longer than a unix socket's path may be
    copy, bind = [(tool, "/usr/local/bin/nvidia-smi")], [(tmp_path, "/data")]
    with Fleet(2, deep, net=fleet_net, port=2223, copy=copy, bind=bind) as small:
        small.root("h002").joinpath("usr/local/bin/nvidia-smi").write_text("#!/bin/sh\nexit 9\n")
        assert out(small.ssh("h001", "nvidia-smi -L")) == "GPU 0: NVIDIA H200"
        assert small.ssh("h002", "nvidia-smi -L").returncode == 9
        assert "Read-only" in small.ssh("h001", "sudo touch /data/x").stderr
        out(small.ssh("h001", "touch /tmp/here"))
        small.reboot("h001")
        assert out(small.ssh("h001", "ls /tmp")) == ""
        pids = [machine.pid for machine in small.plan.machines] + [small.plan.supervisor]
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def test_a_reboot_that_keeps_the_disk(tmp_path: Path, fleet_net: str) -> None:
    """Files stay, processes and /run do not, the boot has another id, and rc.local ran before SSH answers."""
    with Fleet(1, tmp_path / "f", net=fleet_net, port=2223, disk_mb=20 << 10) as small:
        assert int(out(small.ssh("h001", "df -BM --output=avail / | tail -1 | tr -dc 0-9"))) > 20_000
        before = out(small.ssh("h001", "cat /proc/sys/kernel/random/boot_id"))
        boot = "#!/bin/sh\necho booted >> /var/log/boots\n"
        out(small.ssh("h001", f"printf '{boot}' | sudo tee /etc/rc.local; sudo chmod +x /etc/rc.local; touch kept"))
        out(small.ssh("h001", "sudo touch /run/gone; sudo rm /usr/bin/cksum; nohup sleep 99 >/dev/null 2>&1 &"))
        small.reboot("h001", keep=True)
        assert out(small.ssh("h001", "ls; cat /var/log/boots; ls /run")).split() == ["kept", "booted", "lock", "sshd"]
        assert small.ssh("h001", "ls /usr/bin/cksum").returncode != 0
        assert out(small.ssh("h001", "cat /proc/sys/kernel/random/boot_id")) != before
        assert "sleep" not in out(small.ssh("h001", "cat /proc/[0-9]*/comm"))
        small.reboot("h001", keep=True)
        assert out(small.ssh("h001", "cat /var/log/boots")) == "booted\nbooted"
        small.reboot("h001")
        assert out(small.ssh("h001", "ls")) == ""


def test_machines_die_with_a_killed_supervisor(tmp_path: Path, fleet_net: str) -> None:
    """Even kill -9 of the supervisor leaves no machine behind."""
    small = Fleet(2, tmp_path / "f", net=fleet_net, port=2223).start()
    assert small._process
    small._process.kill()
    small._process.wait()
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{m.pid}").exists() for m in small.plan.machines) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not [m for m in small.plan.machines if Path(f"/proc/{m.pid}").exists()]
