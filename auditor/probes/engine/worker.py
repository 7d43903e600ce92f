"""A worker's life: prepare torch once, then run one probe after the other as the parent says."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import sys
import threading
import time
import traceback
from typing import Any, Dict, Optional

from auditor.records import Reading

from . import catalogue
from .channel import Channel, Message
from .context import Assignment, Context, reading_on_the_wire
from .gpu_facts import GpuFacts
from .kernels import Kernels
from .nvml import Nvml


class Worker:
    """State that outlives one probe: the doors, and what is running."""

    def __init__(self, channel: Channel) -> None:
        self.channel, self.nvml, self.kernels = channel, Nvml(), Kernels()
        self.context: Optional[Context] = None
        signal.signal(signal.SIGTERM, self._asked_to_end)
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def _asked_to_end(self, number: int, frame: Any) -> None:
        if self.context is None:
            os._exit(0)
        self.context.stop()

    def serve(self) -> int:
        """Do what comes over the channel until it closes."""
        while True:
            message = self.channel.receive()
            if message is None or message["do"] == "quit":
                return 0
            if message["do"] == "prepare":
                self.channel.send({"say": "ready", **_prepare(message["device"])})
            elif message["do"] == "run":
                self.channel.send({"say": "end", **self._run(message)})

    def _run(self, message: Message) -> Message:
        given = dict(message["assignment"])
        given["gpus"] = tuple(GpuFacts(**gpu) for gpu in given["gpus"])
        context = Context(Assignment(**given), self.channel, self.nvml, self.kernels)
        self.context = context
        try:
            module = catalogue.load(context.key)
            if message["hook"] == "run":
                reason = module.applies(context)
                if given["scope"] == "all" and context.agree(reason is not None) and reason is None:
                    reason = "does not apply to another GPU"
                if reason is not None:
                    skipped = reason.startswith("skipped: ")
                    return {
                        "status": "skipped" if skipped else "not_applicable",
                        "reason": reason[len("skipped: ") :] if skipped else reason,
                    }
            for reading in getattr(module, message["hook"])(context) or ():
                self._tell(reading)
        except TimeoutError as error:  # a foreign program that hung was ended by the probe itself
            return {"status": "timed_out", "reason": str(error) or "timed out"}
        except Exception as error:  # noqa: BLE001  # the probe's border: whatever it raises becomes its row
            self.channel.send({"say": "trace", "text": traceback.format_exc(limit=-12)})
            return {"status": "failed", "reason": one_line(error)}
        finally:
            self.context = None
            _give_memory_back()
        return {"status": "measured", "reason": None}

    def _tell(self, reading: Reading) -> None:
        self.channel.send({"say": "reading", "reading": reading_on_the_wire(reading)})


def _give_memory_back() -> None:
    """The next probe finds the GPU as empty as this one did."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        gc.collect()
        with contextlib.suppress(RuntimeError):  # a broken context; its process is replaced
            torch.cuda.empty_cache()


def one_line(error: BaseException) -> str:
    """An exception as one line a person can read."""
    lines = str(error).strip().splitlines()
    text = lines[0].strip() if lines else ""
    name = type(error).__name__
    return ("%s: %s" % (name, text) if text else name)[:300]


def _prepare(device: str) -> Dict[str, Any]:
    """Import torch and open this GPU's context; what went wrong is told, not raised."""
    began = time.monotonic()
    opening = threading.Thread(target=_open_context, daemon=True)
    if device == "cuda":
        opening.start()
    try:
        import torch

        if device == "cuda":
            opening.join()
            if torch.version.cuda is None:
                return {"problem": "torch %s is built without CUDA" % torch.__version__, "kind": "skipped"}
            torch.zeros(1, device="cuda")
            torch.cuda.synchronize()
    except Exception as error:  # noqa: BLE001  # becomes the row of every probe that needs torch here
        return {"problem": one_line(error), "kind": "failed"}
    return {"problem": None, "seconds": time.monotonic() - began}


def _open_context() -> None:
    """The context that torch will use, made while torch is still being read; what is refused here torch will say."""
    # torch sets this too, but only when it opens the context itself: no kernel is loaded before it is used.
    os.environ.setdefault("CUDA_MODULE_LOADING", "LAZY")
    with contextlib.suppress(OSError, AttributeError):
        library, device, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_void_p()
        if library.cuInit(0) == 0 and library.cuDeviceGet(ctypes.byref(device), 0) == 0:
            library.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)


def main(fileno: int) -> int:
    """Run as a worker over an inherited socket."""
    sys.stdout = sys.stderr  # nothing but the parent's record may stand on stdout
    return Worker(Channel(fileno)).serve()
