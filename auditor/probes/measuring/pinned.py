"""Host memory near a chosen NUMA node, pinned for the GPU's copy engines.

The memory is mapped and touched by a thread that runs on that node's CPUs (the kernel gives a page where it is first
touched), then registered with CUDA. Torch's own pinned allocator keeps freed blocks, so that memory "far" could
be the block that was "near" a moment ago.
"""

import contextlib
import mmap
import os
import re
from typing import Any, Iterator, List, Optional, Set, Tuple

_NODES = "/sys/devices/system/node"


@contextlib.contextmanager
def on_node(node: Optional[int]) -> Iterator[None]:
    """Run this thread on a node's CPUs (those it may use); as found afterwards. None: anywhere."""
    before = os.sched_getaffinity(0)
    wanted = before & cpus(node) if node is not None else before
    if wanted:
        os.sched_setaffinity(0, wanted)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def buffer(size: int, node: Optional[int] = None, pin: bool = True) -> Iterator[Any]:
    """A byte tensor of `size` host bytes on `node`; unpinned and unmapped afterwards."""
    import torch

    memory = mmap.mmap(-1, size)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
    tensor = torch.frombuffer(memory, dtype=torch.uint8)
    with on_node(node):
        tensor.zero_()
    try:
        if pin:
            _ok(torch.cuda.cudart().cudaHostRegister(tensor.data_ptr(), size, 0))
        try:
            yield tensor
        finally:
            if pin:
                torch.cuda.synchronize()
                _ok(torch.cuda.cudart().cudaHostUnregister(tensor.data_ptr()))
    finally:
        del tensor
        with contextlib.suppress(BufferError):  # a tensor still refers to it: the mapping ends with that one
            memory.close()


def _ok(code: Any) -> None:
    if int(code) != 0:
        raise RuntimeError(f"CUDA could not pin host memory: error {int(code)} (locked-memory limit of the container?)")


def nodes() -> List[int]:
    """The NUMA nodes with memory and CPUs that this process may use."""
    allowed = os.sched_getaffinity(0)
    found = []
    with contextlib.suppress(OSError):
        for name in os.listdir(_NODES):
            match = re.fullmatch(r"node(\d+)", name)
            if match and cpus(int(match[1])) & allowed:
                found.append(int(match[1]))
    return sorted(found)


def near_and_far(gpu_node: Optional[int]) -> List[Tuple[str, Optional[int]]]:
    """("near", node) and ("far", node); ("any", None) where the GPU's node is hidden or the only one."""
    known = nodes()
    if gpu_node is None or gpu_node not in known or len(known) < 2:
        return [("any", None)]
    distances = _distances(gpu_node, known)
    far = max((node for node in known if node != gpu_node), key=lambda node: distances.get(node, 0))
    return [("near", gpu_node), ("far", far)]


def _distances(node: int, known: List[int]) -> "dict[int, int]":
    try:
        with open(f"{_NODES}/node{node}/distance", encoding="ascii") as file:
            row = [int(word) for word in file.read().split()]
    except (OSError, ValueError):
        return {}
    return dict(zip(known, row)) if len(row) == len(known) else dict(enumerate(row))


def cpus(node: Optional[int]) -> Set[int]:
    """The CPUs of a node."""
    try:
        with open(f"{_NODES}/node{node}/cpulist", encoding="ascii") as file:
            text = file.read().strip()
    except OSError:
        return set()
    found: Set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found
