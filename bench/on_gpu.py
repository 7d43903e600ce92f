"""All that only a GPU can show, in one go of at most nine minutes: audit, bench and the tests marked `gpu`.

make bench-gpu                                              with this project's Python
python3 bench/on_gpu.py --out /tmp/gpu --steps quick,bench  with another one that has a CUDA torch

Into the folder go steps.txt (what ran, for how long, how it ended), progress.txt, quick.json, standard.json, bench.md,
bench.json and tests.txt. In the order of worth: the audit from its one file (quick), the bench's rows that heat and
power decide, the tests, then the audit in standard within what time is left. A step that does not fit is left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYZ = ROOT / "build" / "auditor-probe.pyz"
ROWS = "boost_fp64,cache,sustained_fp8,sustained_tf32,sustained_fp64"
LEAST = {"quick": 60, "bench": 60, "tests": 60, "standard": 90}
_ENDING = 15
"""Seconds that an audit may take to end and to write its record once its budget is used up."""


class Run:
    """The folder, the time that is left, and what was said so far."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.out, self.device, self.limit = Path(options.out).resolve(), options.device, options.limit
        self.began, self.failed = time.monotonic(), False
        self.out.mkdir(parents=True, exist_ok=True)
        self._said = (self.out / "steps.txt").open("w", encoding="utf-8", buffering=1)

    @property
    def left(self) -> float:
        """Seconds left of the limit."""
        return float(self.limit - (time.monotonic() - self.began))

    def say(self, text: str, failed: bool = False) -> None:
        """One line, here and in the folder."""
        print(text, flush=True)  # noqa: T201
        self._said.write(text + "\n")
        self.failed = self.failed or failed

    def take(self, step: str) -> None:
        """One step, unless too little time is left for it."""
        if self.left < LEAST[step]:
            self.say(f"{step}: left out, {self.left:.0f} s are left and it takes {LEAST[step]} or more", failed=True)
            return
        began = time.monotonic()
        why = {"quick": self._audit, "standard": self._audit, "bench": self._bench, "tests": self._tests}[step](step)
        self.say(f"{step}: {why or 'done'} after {time.monotonic() - began:.1f} s", failed=bool(why))

    def _audit(self, profile: str) -> str | None:
        record = self.out / f"{profile}.json"
        argv = [str(PYZ), "--server", "bench", "--profile", profile, "--device", self.device, "--out", str(record)]
        why = self._call([*argv, "--budget", f"{self.left - _ENDING:.0f}"], "progress.txt")
        return why or self._sum_up(json.loads(record.read_bytes()))

    def _sum_up(self, record: dict) -> str | None:
        """Its seconds; what is not as it should be, is said."""
        seconds = record["seconds"]
        self.say(f"  {seconds['total']} s in all, {seconds['fixed']} before the first measurement")
        for row in record["readings"]:
            if row["stable"] is False:
                self.say(f"  not stable: {row['metric']} {row['subject']} {row['with']}: {row['spread']}")
        bad = [row for row in record["probes"] if row["status"] in ("failed", "timed_out") or row["cut"]]
        for row in bad:
            self.say(f"  {row['probe']} {row['subject']}: {row['status']}, {row['reason']}, cut {row['cut']}")
        failed = [row["probe"] for row in bad if row["status"] in ("failed", "timed_out")]
        return f"not measured: {', '.join(failed)}" if failed else None

    def _bench(self, _: str) -> str | None:
        if self.device == "cpu":
            return self.say("  it compares figures of a GPU")
        return self._call([str(ROOT / "bench" / "bench.py")], "bench.md", noise="progress.txt")

    def _tests(self, _: str) -> str | None:
        if importlib.util.find_spec("pytest") is None:
            return f"left out, {sys.executable} has no pytest (PYTHONPATH may name a folder that has it),"
        files = [path for path in sorted((ROOT / "tests/probes").rglob("test_*.py")) if "mark.gpu" in path.read_text()]
        how = ["--collect-only"] if self.device == "cpu" else ["-rA"]
        return self._call(["-m", "pytest", "-m", "gpu", "-p", "no:cacheprovider", *how, *map(str, files)], "tests.txt")

    def _call(self, argv: list[str], name: str, noise: str | None = None) -> str | None:
        """Run it with this Python; why it did not end well."""
        # The one file has nvidia-ml-py inside, for the bench and the tests too where this Python has none.
        path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")]), str(PYZ)]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "OUT": str(self.out)}
        env.setdefault("ROWS", ROWS)
        with (self.out / name).open("ab") as out, (self.out / (noise or name)).open("ab") as err:
            try:
                done = subprocess.run([sys.executable, *argv], stdout=out, stderr=err, env=env, cwd=ROOT,
                                      timeout=self.left, check=False)  # fmt: skip
            except subprocess.TimeoutExpired:
                return "ended for want of time"
        return None if done.returncode == 0 else f"exit {done.returncode}, see {noise or name},"


def main() -> int:
    """Exit code 0 when every step was done, else 1; 2 for misuse."""
    parser = argparse.ArgumentParser(description="All that only a GPU can show, in one go.")
    parser.add_argument("--out", default=os.environ.get("OUT", str(ROOT / "results" / "bench-gpu")))
    parser.add_argument("--steps", default=",".join(LEAST), help="some of %(default)s, in this order")
    parser.add_argument("--limit", type=float, default=540.0, metavar="SECONDS", help="in all (default %(default)s)")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu tries the steps without a GPU")
    options = parser.parse_args()
    steps = [step for step in options.steps.split(",") if step]
    unknown = [step for step in steps if step not in LEAST]
    if unknown:
        parser.error(f"no step {unknown[0]!r}; there are {', '.join(LEAST)}")
    if importlib.util.find_spec("pynvml") is not None:
        subprocess.run([sys.executable, "-m", "tools.build_pyz"], cwd=ROOT, check=True)
    elif not PYZ.exists():
        parser.error(f"{PYZ} is missing: run `make pyz` where nvidia-ml-py is installed and bring it along")
    run = Run(options)
    for step in steps:
        run.take(step)
    run.say(f"{time.monotonic() - run.began:.0f} s in all; the results are in {run.out}")
    return int(run.failed)


if __name__ == "__main__":
    raise SystemExit(main())
