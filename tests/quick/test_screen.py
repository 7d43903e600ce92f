"""What a person sees: figures beside what was expected, the chart, one line for each of several servers."""

from __future__ import annotations

import io

from rich.console import Console

from auditor import catalog, order
from auditor.judge import policy
from auditor.quick.events import Closed, Event, Figure, Probed, Sample, Step
from auditor.quick.expected import Expected
from auditor.quick.live import LiveScreen, sparks
from auditor.quick.plain import PlainScreen
from auditor.quick.several import SeveralScreen
from auditor.records import Condition, Reading, Value
from auditor.runs import State

ORDER = order.parse("8x A100-SXM4-80GB nvswitch bare-metal", "test")


def figure(metric: str, subject: str, value: Value, spread: float | None = None, **conditions: Condition) -> Figure:
    """A reading as an event."""
    return Figure("gpu-01", Reading(metric.split("_")[0], metric, subject, value, "measured", conditions, spread))


def guest() -> list[Event]:
    """The reference case: eight A100 in a guest, NVLink off."""
    events: list[Event] = [
        Step("gpu-01", "measuring with /opt/conda/bin/python3"),
        Probed("gpu-01", "matmul", "gpu0", "running", 40),
    ]
    events += [figure("gpu_identity_name", f"gpu{index}", "NVIDIA A100-SXM4-80GB") for index in range(8)]
    events += [Probed("gpu-01", "gpu_identity", "server", "measured")]
    for index in range(8):
        gpu = f"gpu{index}"
        events += [
            figure("topology_nvlinks_active_total", gpu, 0),
            figure(
                "matmul_sustained_flops_per_second",
                gpu,
                2.55e14 + index * 1e12,
                0.002,
                dtype="bf16",
                n=8192,
                load="all",
            ),
        ]
    size = {"op": "all_reduce", "ranks": 8, "dtype": "float32", "bytes": 400_000_000}
    events += [
        figure("collectives_algbw_bytes_per_second", "server", 7.2e9, 0.01, **size),
        figure("collectives_busbw_bytes_per_second", "server", 12.6e9, 0.01, **size),
        Probed("gpu-01", "thermal", "gpu3", "failed", reason="GPU is lost"),
    ]
    events += [Sample("gpu-01", f"gpu{i}", 50.0 + i + t, 300.0, 1.4e9 - t * 1e7) for t in range(20) for i in range(8)]
    return events


def expected() -> Expected:
    """What the order and the catalogue let one expect."""
    return Expected(ORDER, catalog.load(), policy.load())


def pictured(events: list[Event], height: int = 40) -> str:
    """The live screen's last picture as text."""
    console = Console(file=io.StringIO(), width=120, height=height, force_terminal=True, color_system=None)
    screen = LiveScreen(console, "auditor quick  gpu-01", expected())
    screen.open(["gpu-01"])
    for event in events:
        screen.take(event)
    screen.close()
    picture = Console(file=io.StringIO(), width=120, height=height, color_system=None)
    picture.print(screen.view())
    return picture.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_figures_stand_beside_what_was_expected() -> None:
    """Eight GPUs are one row: the middle, the range, the spread, the level, how far off."""
    text = pictured(guest())
    lines = {line.strip().split("  ")[0]: " ".join(line.split()) for line in text.splitlines() if line.strip()}
    assert lines["GPU"] == "GPU 8 × NVIDIA A100-SXM4-80GB"
    assert lines["NVLinks active"] == "NVLinks active 0 12 ▼ -100%"
    matmul = lines["matmul bf16 8192³ all at once"]
    assert "258 TFLOPS (255 to 262) 0.2%" in matmul and "✔" in matmul
    assert "7.20 GB/s 1.0% 40 GB/s ▼ -82%" in lines["all-reduce, algorithm 400 MB of 8"]
    assert "▼" in lines["all-reduce, bus 400 MB of 8"]
    assert "thermal gpu3: failed, GPU is lost" in text


def test_the_chart_moves_with_the_load() -> None:
    """The hottest GPU, the sum of the power, the slowest clock; one point a second."""
    text = pictured(guest())
    temperature, power, clock = (
        next(line for line in text.splitlines() if line.strip().startswith(name))
        for name in ("temperature", "power", "SM clock")
    )
    assert "75 °C" in temperature and "57 °C to 75 °C" in temperature and "▁" in temperature and "█" in temperature
    assert "2,400 W" in power
    assert "1,220 MHz" in clock


def test_a_small_terminal_keeps_the_latest() -> None:
    """Nothing is drawn past the terminal's height: rich would scroll it into a mess."""
    many = guest() + [
        figure("collectives_busbw_bytes_per_second", "server", 1e9, op="all_reduce", ranks=8, bytes=1e6 * n)
        for n in range(60)
    ]
    text = pictured(many, height=20)
    assert len(text.splitlines()) <= 20
    assert "all-reduce, bus 59 MB of 8" in text


def test_sparks_do_not_make_noise_look_like_news() -> None:
    """A steady figure stays flat; a rise fills the height."""
    assert sparks([400.0, 401.0, 400.5], 60.0) == "▁▁▁"
    assert sparks([40.0, 48.0, 56.0, 64.0], 8.0) == "▁▃▆█"


def test_plain_lines_say_each_row_once() -> None:
    """Eight GPUs make one line, when the last of them has its figure."""
    out = io.StringIO()
    screen = PlainScreen(Console(file=out, width=200), {"gpu-01": expected()})
    screen.open(["gpu-01"])
    for event in [*guest(), Closed("gpu-01", State("measure", "probe_died", "it was killed"))]:
        screen.take(event)
    lines = [line.split(" s  ", 1)[1] for line in out.getvalue().splitlines()]
    assert lines.count("NVLinks active: 0, expected 12 (not good enough)") == 1
    matmul = [line for line in lines if line.startswith("matmul")]
    assert matmul == ["matmul bf16 8192³ all at once: 258 TFLOPS  (255 to 262) ±0.2%, expected 250 TFLOPS"]
    assert lines.count("GPU: 8 × NVIDIA A100-SXM4-80GB") == 1
    assert lines[-1] == "the probe was killed there: it was killed"
    assert "thermal gpu3: failed (GPU is lost)" in lines


def test_a_row_that_never_filled_is_said_at_the_end() -> None:
    """Seven of eight GPUs have a figure, the eighth was lost: the seven are still told."""
    out = io.StringIO()
    screen = PlainScreen(Console(file=out, width=200), {"gpu-01": expected()})
    names = [figure("gpu_identity_name", f"gpu{i}", "NVIDIA A100-SXM4-80GB") for i in range(8)]
    rates = [figure("memory_bandwidth_bytes_per_second", f"gpu{i}", 1.7e12, op="read") for i in range(7)]
    for event in [*names, *rates]:
        screen.take(event)
    assert "memory read" not in out.getvalue()
    screen.take(Closed("gpu-01", State("done")))
    assert "memory read: 1,700 GB/s" in out.getvalue()


def test_several_servers_have_one_line_each() -> None:
    """Step, figures and ending of every server; endings stay on the terminal."""
    out = io.StringIO()
    console = Console(file=out, width=140, height=30, force_terminal=True, color_system=None)
    screen = SeveralScreen(console)
    screen.open(["gpu-01", "gpu-02"])
    screen.take(Step("gpu-01", "sending the probe"))
    screen.take(Probed("gpu-01", "matmul", "gpu0", "running", 30))
    screen.take(figure("matmul_sustained_flops_per_second", "gpu0", 6.5e14, dtype="bf16", n=8192))
    screen.take(Closed("gpu-01", State("done")))
    screen.take(Closed("gpu-02", State("reach", "unreachable", "the connection was refused")))
    screen.close()
    said = out.getvalue()
    assert "✔ gpu-01" in said and "650 TFLOPS" in said
    assert "✖ gpu-02  the server did not answer: the connection was refused" in said


def test_expectations_follow_what_the_server_is() -> None:
    """Without an order the model that answers decides; PCIe boards are not held against NVLink."""
    known = Expected(None, catalog.load(), policy.load())
    conditions = {"dtype": "bf16", "n": 8192}
    assert known.text("matmul_sustained_flops_per_second", conditions) == ""
    known.learn(figure("gpu_identity_name", "gpu0", "NVIDIA H200").reading)
    assert known.model is not None and known.model.name.startswith("H200")
    assert known.text("matmul_sustained_flops_per_second", conditions).endswith("TFLOPS")
    assert known.text("thermal_gpu_celsius", {"stat": "max"}) == "at most 80 °C"
    assert known.stands("thermal_gpu_celsius", {"stat": "max"}, 85.0) == (False, 85 / 80 - 1)
    assert known.level("topology_nvlinks_active_total", {}) is None  # one GPU has nobody to talk to


def test_a_cpu_is_not_held_against_the_gpu_that_was_ordered() -> None:
    """8x A100 ordered and none usable: the CPU's own figures stand without an expectation beside them."""
    known = Expected(order.Order(gpus=8, gpu="A100-SXM4-80GB"), catalog.load(), policy.load())
    assert known.text("memory_bandwidth_bytes_per_second", {"op": "read"}).endswith("GB/s")
    known.learn(figure("memory_bandwidth_bytes_per_second", "server", 9e9, op="read").reading)
    assert known.text("memory_bandwidth_bytes_per_second", {"op": "read"}) == ""
