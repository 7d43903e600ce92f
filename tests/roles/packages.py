"""Small packages of the right names: an apt repository and a dnf repository as folders, made for one test run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

SMI = '#!/bin/sh\n[ -d /sys/module/nvidia ] || { echo "NVIDIA-SMI has failed"; exit 9; }\necho GPU-1\n'


class Package(NamedTuple):
    """One package: its name, version, and what it does when it is configured (a shell text)."""

    name: str
    version: str
    configure: str = ""
    needs: str = ""
    files: tuple[tuple[str, str], ...] = ()


def driver(version: str, kernel: str) -> list[Package]:
    """The driver's packages under Ubuntu's and Debian's names, all of one version."""
    branch = version.split(".")[0]
    server = ("nvidia-dkms-{}-server-open", "nvidia-kernel-common-{}-server", "libnvidia-compute-{}-server",
              "nvidia-compute-utils-{}-server", "nvidia-fabricmanager-{}", "nvidia-driver-pinning-{}")  # fmt: skip
    names = [*(name.format(branch) for name in server), "nvidia-kernel-open-dkms"]
    tools = [Package(name, version, files=(("/usr/bin/nvidia-smi", SMI),)) for name in
             (f"nvidia-utils-{branch}-server", "nvidia-driver-cuda")]  # fmt: skip
    return [*(Package(name, version) for name in names), *tools, Package(f"linux-headers-{kernel}", "1.0")]


def dcgm(cuda: int) -> list[Package]:
    """DCGM 4's four packages."""
    core = "datacenter-gpu-manager-4"
    names = ("-core", f"-cuda{cuda}", "-proprietary", f"-proprietary-cuda{cuda}")
    return [Package(core + name, "1:4.6.0-1") for name in names]


def apt_repository(folder: Path, packages: Iterable[Package]) -> Path:
    """A flat apt repository; use it as `deb [trusted=yes] file:FOLDER ./`."""
    folder.mkdir(parents=True, exist_ok=True)
    for package in packages:
        tree = folder / "build" / package.name
        (tree / "DEBIAN").mkdir(parents=True)
        needs = f"Depends: {package.needs}\n" if package.needs else ""
        (tree / "DEBIAN/control").write_text(
            f"Package: {package.name}\nVersion: {package.version}\nArchitecture: all\n"
            f"Maintainer: test <t@example.com>\n{needs}Description: a package of this name\n"
        )
        if package.configure:
            (tree / "DEBIAN/postinst").write_text(f"#!/bin/sh\n{package.configure}\n")
            (tree / "DEBIAN/postinst").chmod(0o755)
        for path, text in package.files:
            at = tree / path.lstrip("/")
            at.parent.mkdir(parents=True, exist_ok=True)
            at.write_text(text)
            at.chmod(0o755)
        subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "-b", str(tree), str(folder)], check=True,
                       stdout=subprocess.DEVNULL)  # fmt: skip
    listing = subprocess.run(["dpkg-scanpackages", "-m", "."], cwd=folder, check=True, capture_output=True).stdout
    (folder / "Packages").write_bytes(listing)
    return folder


def dnf_repository(folder: Path, packages: Iterable[Package]) -> Path:
    """An rpm repository with its metadata."""
    folder.mkdir(parents=True, exist_ok=True)
    for package in packages:
        spec = folder / f"{package.name}.spec"
        post = f"%post\n{package.configure}\n" if package.configure else ""
        spec.write_text(
            f"Name: {package.name}\nVersion: {package.version}\nRelease: 1\nSummary: a package of this name\n"
            f"License: none\nBuildArch: noarch\n%description\nA package of this name.\n{post}%files\n"
        )
        subprocess.run(
            ["rpmbuild", "-bb", "--quiet", f"--define=_rpmdir {folder}", f"--define=_topdir {folder}/top", str(spec)],
            check=True, capture_output=True, env={**os.environ, "HOME": str(folder)},
        )  # fmt: skip
    subprocess.run(["createrepo_c", "--quiet", str(folder)], check=True)
    return folder
