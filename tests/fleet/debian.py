"""Other releases of Debian for the machines to stand on: made by debootstrap from this machine's own mirror."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

_NEEDS = "python3,python3-apt,sudo,openssh-server,procps"
# Python 3.9's pip needs distutils, which Debian 11 has as a package of its own and its cloud images bring along.
_MORE = {"bullseye": ",python3-distutils"}
_SOURCES = Path("/etc/apt")


class NoRoot(Exception):
    """Why a release cannot be had here."""


def root(suite: str, folder: Path) -> Path:
    """A folder with this release; one that lies ready in $FLEET_ROOTS is taken instead of making it."""
    ready = Path(os.environ.get("FLEET_ROOTS", "/nowhere"), suite)
    if ready.is_dir():
        return ready
    if not shutil.which("debootstrap", path=f"{os.environ['PATH']}:/usr/sbin"):
        raise NoRoot("debootstrap is missing: apt-get install --no-install-recommends debootstrap")
    at = folder / suite
    argv = [
        "debootstrap",
        "--variant=minbase",
        f"--include={_NEEDS}{_MORE.get(suite, '')}",
        suite,
        str(at),
        mirror(suite),
    ]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env={**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"})  # fmt: skip
    if done.returncode:
        raise NoRoot(f"debootstrap {suite}: {(done.stdout.strip().splitlines() or ['no word'])[-1]}")
    return at


def mirror(suite: str) -> str:
    """The first archive of this machine's own package sources that has this release."""
    found = [address for address in _addresses() if _has(address, suite)]
    if not found:
        raise NoRoot(f"none of this machine's package sources has {suite}")
    return found[0]


def _addresses() -> list[str]:
    """Addresses of all package sources, in either of apt's two formats, each once."""
    files = [_SOURCES / "sources.list", *sorted(_SOURCES.glob("sources.list.d/*"))]
    text = "\n".join(file.read_text(errors="replace") for file in files if file.is_file())
    one_line = re.findall(r"^deb\s+(?:\[[^\]]*\]\s+)?(https?://\S+)", text, re.MULTILINE)
    deb822 = [word for line in re.findall(r"^URIs:(.*)$", text, re.MULTILINE) for word in line.split()]
    return list(dict.fromkeys(word.rstrip("/") for word in [*one_line, *deb822] if word.startswith("http")))


def _has(address: str, suite: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/dists/{suite}/Release", timeout=10) as answer:
            return f"Codename: {suite}" in answer.read(4096).decode("utf-8", "replace")
    except (urllib.error.URLError, OSError):
        return False
