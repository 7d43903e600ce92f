"""NVIDIA's own all-reduce benchmark, where it is installed: its figure beside ours.

`all_reduce_perf` from 8 MiB to 256 MiB (to 8 GiB in standard) over all GPUs, float32, with its own check of the
result. What it prints goes to the controller as it is; a reader there takes the figures out.
"""

import shutil
from typing import Any, Iterator, Optional

from auditor.records import Reading

from .engine import programs

KEY = "nccl_tests"
SCOPE = "server"
DEVICES = ("cuda",)
NEEDS = ()
METHOD = 1
ORDER = 91
WORKERS = False
SECONDS = {"quick": 20.0, "standard": 60.0, "soak": 60.0}

PROGRAM = "all_reduce_perf"
LARGEST = {"quick": "256M", "standard": "8G", "soak": "8G"}
ATTACHMENT = "nccl-tests-all-reduce.txt"


def applies(context: Any) -> Optional[str]:
    """Where the program is on the PATH and there are two GPUs to talk to each other."""
    if shutil.which(PROGRAM) is None:
        return f"{PROGRAM} is not installed"
    return "one GPU: nothing to exchange" if len(context.gpus) < 2 else None


def run(context: Any) -> Iterator[Reading]:
    """Run it once; what it printed is kept also where it failed."""
    argv = [str(shutil.which(PROGRAM)), "-b", "8M", "-e", LARGEST[context.profile], "-f", "2"]
    argv += ["-g", str(len(context.gpus))]
    seconds = max(1.0, context.remaining() - 3.0)
    done = programs.run(argv, str(context.directory), seconds)
    if done is None:
        raise TimeoutError(f"{PROGRAM} did not end within {seconds:.0f} s")
    if done.out.strip():
        context.attach(ATTACHMENT, done.out)
    if done.code != 0:
        lines = (done.err or done.out).strip().splitlines() or ["no word"]
        raise RuntimeError(f"{PROGRAM} ended with exit code {done.code}: {lines[-1][:200]}")
    yield context.reading("exit_code", done.code)
