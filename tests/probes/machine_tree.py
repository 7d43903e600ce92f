"""Fake /proc and /sys trees: only the files a test needs, laid out as the kernel does it."""

from __future__ import annotations

from pathlib import Path


class Tree:
    """A root folder that grows."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def __str__(self) -> str:
        return str(self.root)

    def write(self, path: str, content: str | bytes = "") -> Tree:
        """A file with its folders."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return self

    def link(self, path: str, target: str) -> Tree:
        """A symbolic link, as the kernel writes it."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.symlink_to(target)
        return self

    def pci(self, chain: str, *, node: int = -1, **files: str) -> Tree:
        """A PCI function below its bridges: `pci0000:00/0000:00:01.0/0000:01:00.0`, and its entry on the bus."""
        folder = f"sys/devices/{chain}"
        address = chain.rsplit("/", 1)[-1]
        given = {"numa_node": str(node), **files}
        for name, content in given.items():
            self.write(f"{folder}/{name}", content)
        self.link(f"sys/bus/pci/devices/{address}", f"../../../devices/{chain}")
        return self

    def gpu(self, chain: str, *, node: int = -1, device: str = "0x20b2", **files: str) -> Tree:
        """An NVIDIA GPU."""
        return self.pci(
            chain,
            node=node,
            vendor="0x10de",
            device=device,
            subsystem_vendor="0x10de",
            subsystem_device="0x1463",
            **{"class": "0x030200", **files},
        )

    def bridge(self, chain: str, *, node: int = -1, **files: str) -> Tree:
        """A port of a switch or of the root."""
        return self.pci(chain, node=node, vendor="0x1000", device="0xc030", **{"class": "0x060400", **files})

    def namespaces(self, **numbers: int) -> Tree:
        """This process's namespaces; the kernel's first ones by default."""
        first = {"ipc": 4026531839, "uts": 4026531838, "pid": 4026531836, "cgroup": 4026531835}
        for name, number in {**first, **numbers}.items():
            self.link(f"proc/self/ns/{name}", f"{name}:[{number}]")
        return self
