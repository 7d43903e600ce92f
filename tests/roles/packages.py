"""Small packages of the right names: an apt repository and a dnf repository as folders, made for one test run."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

SMI = '#!/bin/sh\n[ -d /sys/module/nvidia ] || { echo "NVIDIA-SMI has failed"; exit 9; }\necho GPU-1\n'


class Package(NamedTuple):
    """One package: its name, version, and what it does when it is configured (a shell text)."""

    name: str
    version: str
    configure: str = ""
    needs: str = ""
    provides: str = ""
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


def rpm_driver(version: str, kernel: str) -> list[Package]:
    """The driver's packages under the names of NVIDIA's repository for EL 9, with the headers of one kernel."""
    full = f"3:{version}-1.el9"
    names = ("kmod-nvidia-open-dkms", "kmod-nvidia-latest-dkms", "nvidia-fabric-manager")
    tools = Package("nvidia-driver-cuda", full, needs="nvidia-driver-cuda-libs", files=(("/usr/bin/nvidia-smi", SMI),))
    headers = Package("kernel-devel", kernel.rpartition(".")[0])
    return [*(Package(name, full) for name in names), tools, Package("nvidia-driver-cuda-libs", full), headers]


def dnf_repository(
    folder: Path, packages: Iterable[Package], streams: Mapping[str, str] | None = None, *, key: str = ""
) -> Path:
    """An rpm repository with its metadata; `streams` (stream: version) are those of the module nvidia-driver.

    With `key` the packages are signed, and the public key lies beside them under that name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    packages = [*packages, Package("bash", "5.1-1.el9", provides="/bin/sh")]  # scriptlets ask for it by rpm's own rule
    for number, package in enumerate(packages):
        _spec(folder / f"{number}.spec", package)
    specs = sorted(folder.glob("*.spec"))
    subprocess.run(
        ["rpmbuild", "-bb", "--quiet", f"--define=_rpmdir {folder}", f"--define=_topdir {folder}/top", *specs],
        check=True, capture_output=True, env={**os.environ, "HOME": str(folder)},
    )  # fmt: skip
    if key:
        _sign(folder, key)
    subprocess.run(["createrepo_c", "--quiet", str(folder)], check=True)
    if streams:
        (folder / "modules.yaml").write_text(
            "".join(_stream(name, version, packages) for name, version in streams.items())
        )
        subprocess.run(["modifyrepo_c", "--mdtype=modules", folder / "modules.yaml", folder / "repodata"], check=True,
                       capture_output=True)  # fmt: skip
    return folder


def _sign(folder: Path, key: str) -> None:
    home = folder / "top/gnupg"
    home.mkdir(mode=0o700)
    gpg = ["gpg", "--homedir", str(home), "--batch", "--passphrase", ""]
    try:
        subprocess.run([*gpg, "--quick-gen-key", "test", "rsa2048", "sign", "never"], check=True, capture_output=True)
        public = subprocess.run([*gpg, "--armor", "--export", "test"], check=True, capture_output=True).stdout
        rpms = sorted(map(str, folder.rglob("*.rpm")))
        who = ("--define=_gpg_name test", f"--define=_gpg_path {home}", "--define=__gpg /usr/bin/gpg")
        subprocess.run(["rpmsign", "--addsign", *who, *rpms], check=True, capture_output=True)
    finally:
        subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "all"], check=False)
    (folder / key).write_bytes(public)


def _spec(path: Path, package: Package) -> None:
    epoch, _, version = package.version.rpartition(":")
    version, _, release = version.partition("-")
    root = path.with_suffix("")
    for name, text in package.files:
        at = root / name.lstrip("/")
        at.parent.mkdir(parents=True, exist_ok=True)
        at.write_text(text)
        at.chmod(0o755)
    path.write_text(
        f"%global debug_package %{{nil}}\nName: {package.name}\nVersion: {version}\nRelease: {release or 1}\n"
        "Summary: a package of this name\nLicense: none\nAutoReqProv: no\n"
        + (f"Epoch: {epoch}\n" if epoch else "")
        + (f"Requires: {package.needs}\n" if package.needs else "")
        + (f"Provides: {package.provides}\n" if package.provides else "")
        + "%description\nA package of this name.\n"
        + (f"%install\ncp -a {root}/. %{{buildroot}}\n" if package.files else "")
        + (f"%post\n{package.configure}\n" if package.configure else "")
        + "%files\n" + "".join(f"{name}\n" for name, _ in package.files)
    )  # fmt: skip


def _stream(name: str, version: str, packages: Iterable[Package]) -> str:
    """One stream of the module nvidia-driver: what it does not name is hidden while another stream is enabled."""
    machine = platform.machine()
    rows = "".join(
        f"      - {one.name}-{one.version if ':' in one.version else '0:' + one.version}.{machine}\n"
        for one in packages if version in one.version
    )  # fmt: skip
    return (
        "---\ndocument: modulemd\nversion: 2\ndata:\n  name: nvidia-driver\n"
        f"  stream: {name}\n  version: 1\n  context: 1\n  arch: {machine}\n  summary: a driver\n"
        "  description: a driver\n  license:\n    module: [none]\n  artifacts:\n    rpms:\n" + rows + "...\n"
    )
