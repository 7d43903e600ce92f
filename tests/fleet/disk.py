"""A machine's own root: a tmpfs of limited size, with copy-on-write /usr and /etc over the controller's or a base's."""

from __future__ import annotations

import os
import shutil
import stat
import uuid
from pathlib import Path

from tests.fleet.plan import Plan, Spec
from tests.fleet.syscalls import MNT_DETACH, MS_BIND, MS_PRIVATE, MS_RDONLY, MS_REC, MS_REMOUNT, call, mount

_FOLDERS = {
    "dev": 0o755, "proc": 0o555, "sys": 0o555, "tmp": 0o1777, "opt": 0o755, "home": 0o755, "root": 0o700, "mnt": 0o755,
    "srv": 0o755, "run": 0o755, "run/sshd": 0o755, "run/lock": 0o1777, "var": 0o755, "var/tmp": 0o1777,
    "var/log": 0o755, "var/lib": 0o755, "var/cache": 0o755, ".cow": 0o700,
}  # fmt: skip


def enter(plan: Plan, spec: Spec, home: Path, key: Path) -> None:
    """Build the root of one machine under `home` and move into it. Call in a mount namespace of its own."""
    mount("none", "/", None, MS_REC | MS_PRIVATE)  # nothing leaks back out
    root = home / "root"
    root.mkdir(exist_ok=True)
    mount("tmpfs", root, "tmpfs", 0, f"size={plan.disk_mb}m,mode=755")
    below = Path(plan.base or "/")
    _folders(plan, root, below)
    for name in ("usr", "etc", "var") if plan.base else ("usr", "etc"):  # shared below, private above
        upper, work = root / f".cow/{name}", root / f".cow/{name}.work"
        for path in (root / name, upper, work):
            path.mkdir(exist_ok=True)
        if name == "etc":
            _etc(plan, spec, upper, key, below / "etc")
        mount("overlay", root / name, "overlay", 0, f"lowerdir={below / name},upperdir={upper},workdir={work}")
    _keys(plan, root)
    _devices(root / "dev")
    _proc(root)
    mount("sysfs", root / "sys", "sysfs", MS_RDONLY)
    for source, target in plan.bind:  # read-only views of big trees
        _bind(source, root / target.lstrip("/"))
    for source, target in plan.copy:  # private, writable copies
        at = root / target.lstrip("/")
        at.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if Path(source).is_dir() else shutil.copy)(source, at)
    os.chdir(root)
    call("pivot_root", ".", ".")
    call("umount2", ".", MNT_DETACH)
    os.chdir("/")


def enter_again() -> None:
    """The same root after a reboot that kept the disk: what lives in memory is new. Call inside the machine."""
    call("umount2", "/proc", MNT_DETACH)
    call("umount2", "/dev/shm", MNT_DETACH)  # noqa: S108  # the machine's own
    _proc(Path("/"))
    mount("shm", "/dev/shm", "tmpfs", 0, "mode=1777")  # noqa: S108
    for path in Path("/run").iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()
    for name in ("run/sshd", "run/lock"):
        Path("/", name).mkdir()
        Path("/", name).chmod(_FOLDERS[name])


def _proc(root: Path) -> None:
    """/proc, with a boot of the machine's own: its id tells two boots apart."""
    mount("proc", root / "proc", "proc")
    boot = root / ".cow/boot_id"
    boot.write_text(f"{uuid.uuid4()}\n")
    mount(boot, root / "proc/sys/kernel/random/boot_id", None, MS_BIND)


def resize(size: int) -> None:
    """Give the running machine's root another size in bytes."""
    mount("tmpfs", "/", "tmpfs", MS_REMOUNT, f"size={size}")


def _folders(plan: Plan, root: Path, below: Path) -> None:
    os.umask(0)
    for name, mode in {**_FOLDERS, f"home/{plan.user}": 0o750, f"home/{plan.user}/.ssh": 0o700}.items():
        (root / name).mkdir(mode=mode)
    os.umask(0o022)
    (root / "var/run").symlink_to("/run")
    for entry in below.iterdir():  # /bin -> usr/bin and so on
        if entry.is_symlink() and str(entry.readlink()).startswith("usr/"):
            (root / entry.name).symlink_to(entry.readlink())


def _keys(plan: Plan, root: Path) -> None:
    authorized = root / f"home/{plan.user}/.ssh/authorized_keys"
    authorized.write_text(plan.pubkey)
    authorized.chmod(0o600)
    for path in (authorized, authorized.parent, authorized.parent.parent):
        os.chown(path, 1000, 1000)
    if plan.root_login:
        (root / "root/.ssh").mkdir(mode=0o700)
        shutil.copy(authorized, root / "root/.ssh/authorized_keys")


def _bind(source: str, at: Path) -> None:
    if Path(source).is_dir():
        at.mkdir(parents=True, exist_ok=True)
    else:
        at.parent.mkdir(parents=True, exist_ok=True)
        at.touch()
    mount(source, at, None, MS_BIND)
    mount("none", at, None, MS_BIND | MS_REMOUNT | MS_RDONLY)


def _etc(plan: Plan, spec: Spec, etc: Path, key: Path, below: Path) -> None:
    """What differs from the /etc below; written into the overlay's upper layer."""
    user = plan.user
    (etc / "ssh").mkdir()
    for file in (key, key.with_suffix(".pub")):
        shutil.copy(file, etc / "ssh" / file.name)  # the key keeps its mode 0600
    (etc / "ssh/sshd_config").write_text(
        f"HostKey /etc/ssh/{key.name}\nUsePAM no\nPasswordAuthentication no\n"
        "KbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\nUseDNS no\n"
        "PrintMotd no\nPidFile none\nSubsystem sftp internal-sftp\n" + plan.sshd_extra
    )
    system = [
        line
        for line in (below / "passwd").read_text().splitlines()
        if int(line.split(":")[2]) < 1000 or line.startswith("nobody:")
    ]
    (etc / "passwd").write_text("\n".join([*system, f"{user}:x:1000:1000::/home/{user}:/bin/bash"]) + "\n")
    groups = [line for line in (below / "group").read_text().splitlines() if int(line.split(":")[2]) < 1000]
    (etc / "group").write_text("\n".join([*groups, f"{user}:x:1000:"]) + "\n")
    (etc / "shadow").write_text(
        "".join(f"{line.split(':')[0]}:*:19000:0:99999:7:::\n" for line in system) + f"{user}:*:19000:0:99999:7:::\n"
    )
    (etc / "shadow").chmod(0o600)
    (etc / "hostname").write_text(spec.name + "\n")
    (etc / "hosts").write_text(f"127.0.0.1 localhost\n127.0.1.1 {spec.name}\n")
    (etc / "resolv.conf").write_text("")
    (etc / "machine-id").write_text(os.urandom(16).hex() + "\n")
    if plan.sudo:
        (etc / "sudoers.d").mkdir(mode=0o750)
        (etc / "sudoers.d/fleet").write_text(f"{user} ALL=(ALL:ALL) NOPASSWD: ALL\n")
        (etc / "sudoers.d/fleet").chmod(0o440)


def _devices(dev: Path) -> None:
    mount("tmpfs", dev, "tmpfs", 0, "size=64k,mode=755")
    for name, minor in {"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9}.items():
        os.mknod(dev / name, stat.S_IFCHR, os.makedev(1, minor))
        (dev / name).chmod(0o666)
    os.mknod(dev / "tty", stat.S_IFCHR, os.makedev(5, 0))
    (dev / "tty").chmod(0o666)
    links = {"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
    for link, target in links.items():
        (dev / link).symlink_to(target)
    for name in ("pts", "shm"):
        (dev / name).mkdir()
    mount("devpts", dev / "pts", "devpts", 0, "newinstance,ptmxmode=666,mode=620,gid=5")
    mount("shm", dev / "shm", "tmpfs", 0, "mode=1777")
