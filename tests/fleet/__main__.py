"""The fleet from a shell: python -m tests.fleet up 20; python -m tests.fleet fault h003 down."""

from __future__ import annotations

import argparse
import os
import sys
import time

from tests.fleet.client import Fleet
from tests.fleet.faults import FAULTS


def _parser() -> argparse.ArgumentParser:
    faults = "; ".join(f"{name} ({what})" for name, what in FAULTS.items())
    parser = argparse.ArgumentParser(prog="python -m tests.fleet", description=__doc__, epilog="faults: " + faults)
    commands = parser.add_subparsers(dest="command", required=True)
    where = argparse.ArgumentParser(add_help=False)
    where.add_argument("--dir", default="/tmp/fleet", help="the fleet's folder (default %(default)s)")
    up = commands.add_parser("up", parents=[where], help="start N machines")
    up.add_argument("count", type=int)
    up.add_argument("--user", default="ubuntu")
    up.add_argument("--port", type=int, default=2222)
    up.add_argument("--net", default="127.77", help="first two octets (default %(default)s)")
    up.add_argument("--disk-mb", type=int, default=64)
    up.add_argument("--base", default="", metavar="FOLDER", help="another Linux, made by debootstrap")
    up.add_argument("--no-sudo", dest="sudo", action="store_false")
    up.add_argument("--root-login", action="store_true", help="root may log in with the key too")
    up.add_argument("--bind", action="append", default=[], metavar="SRC:DST", help="read-only view")
    up.add_argument("--copy", action="append", default=[], metavar="SRC:DST", help="private copy")
    commands.add_parser("down", parents=[where], help="stop all machines")
    commands.add_parser("status", parents=[where], help="list machines, pids and disk use")
    fault = commands.add_parser("fault", parents=[where], help="break machines")
    fault.add_argument("hosts")
    fault.add_argument("fault", help="NAME or NAME=VALUE")
    fault.add_argument("--on", metavar="REGEX", help="wait for a process that matches")
    fault.add_argument("--after", type=float, default=0, metavar="S")
    heal = commands.add_parser("heal", parents=[where], help="undo a fault, or all")
    heal.add_argument("hosts")
    heal.add_argument("fault", nargs="?")
    reboot = commands.add_parser("reboot", parents=[where], help="restart machines with an empty disk")
    reboot.add_argument("hosts")
    reboot.add_argument("--keep", action="store_true", help="with the disk they have")
    execute = commands.add_parser("exec", parents=[where], help="run a command there as root, without SSH")
    execute.add_argument("host")
    execute.add_argument("argv", nargs=argparse.REMAINDER)
    return parser


def _up(wish: argparse.Namespace) -> None:
    begin = time.monotonic()
    pairs = {key: [item.split(":", 1) for item in getattr(wish, key)] for key in ("bind", "copy")}
    same = {key: getattr(wish, key) for key in ("user", "port", "net", "disk_mb", "base", "sudo", "root_login")}
    fleet = Fleet(wish.count, wish.dir, **same, **pairs).start()
    print(f"{wish.count} machines up in {time.monotonic() - begin:.2f} s", file=sys.stderr)
    print(fleet.inventory)


def _status(fleet: Fleet) -> None:
    for machine in fleet.plan.machines:
        try:
            disk = os.statvfs(f"/proc/{machine.pid}/root/")
            used = f"{(disk.f_blocks - disk.f_bfree) * disk.f_frsize / 1e6:.1f} MB used"
        except OSError:
            used = "dead"
        print(f"{machine.name}  {machine.address}:{fleet.plan.port}  pid {machine.pid}  {used}")


def main() -> None:
    """One command, on the fleet in --dir."""
    wish = _parser().parse_args()
    if wish.command == "up":
        return _up(wish)
    fleet = Fleet.open(wish.dir)
    if wish.command == "down":
        fleet.stop()
    elif wish.command == "status":
        _status(fleet)
    elif wish.command == "fault":
        name, _, value = wish.fault.partition("=")
        fleet.fault(wish.hosts, name, value or None, on=wish.on, after=wish.after)
    elif wish.command == "heal":
        fleet.heal(wish.hosts, wish.fault)
    elif wish.command == "reboot":
        fleet.reboot(wish.hosts, keep=wish.keep)
    elif wish.command == "exec":
        pid = str(fleet.plan.machine(wish.host).pid)
        argv = wish.argv[1:] if wish.argv[:1] == ["--"] else wish.argv
        os.execvp("nsenter", ["nsenter", "-t", pid, "-m", "-u", "-i", "-n", "-p", "-r", "-w", *(argv or ["bash"])])
    return None


if __name__ == "__main__":
    try:
        main()
    except (RuntimeError, OSError, ValueError) as error:
        sys.exit(f"fleet: {error}")
