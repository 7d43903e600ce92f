"""make wheelhouse: all wheels that torch needs on servers without internet, fetched on the controller.

    make wheelhouse WHEELHOUSE=wheels SERVER_PYTHON=3.10 TORCH=2.13.0 TORCH_INDEX= ARCHITECTURE=x86_64

The folder then goes to the servers by `-e audit_wheelhouse=wheels`. pip itself is in it, for servers that have none.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path


def platforms(architecture: str) -> list[str]:
    """The platform tags that a server with glibc 2.28 or newer takes.

    pip takes each name by itself, and the wheels that one torch needs carry many: 2_28, 2_27, 2_25, 2_18 and older.
    """
    tags = [f"manylinux_2_{minor}_{architecture}" for minor in range(28, 4, -1)]
    return tags + [f"manylinux{year}_{architecture}" for year in (2014, 2010, 1)]


def main() -> int:
    """Fetch torch, what it needs, and pip, for another Python and machine than this one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", default="3.10", help="the servers' Python, for example 3.10")
    parser.add_argument("--torch", default="2.13.0")
    parser.add_argument(
        "--index", default="", help="a wheel index of torch, for example https://download.pytorch.org/whl/cu126"
    )
    parser.add_argument("--architecture", default="x86_64", choices=["x86_64", "aarch64"])
    wishes = parser.parse_args()
    wishes.folder.mkdir(parents=True, exist_ok=True)
    argv = [sys.executable, "-m", "pip", "download", "-q", "--only-binary=:all:", "-d", str(wishes.folder)]
    argv += ["--python-version", wishes.python, "--implementation", "cp"]
    for platform in platforms(wishes.architecture):
        argv += ["--platform", platform]
    argv += ["--extra-index-url", wishes.index] if wishes.index else []
    print(f"wheelhouse: torch {wishes.torch} for Python {wishes.python} on {wishes.architecture} into {wishes.folder}")
    done = subprocess.run([*argv, f"torch=={wishes.torch}", "pip"], check=False)
    if done.returncode:
        print(
            f"wheelhouse: pip ended with {done.returncode}; is there a torch {wishes.torch} for Python {wishes.python}?"
        )
        return 1
    wheels = list(wishes.folder.glob("*.whl"))
    size = sum(wheel.stat().st_size for wheel in wheels)
    print(f"wheelhouse: {len(wheels)} wheels, {size / 1e9:.2f} GB. Use: -e audit_wheelhouse={wishes.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
