"""The doors to driver and kernels: every refusal is data with a word, none an exception."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from auditor.probes.engine import kernels
from auditor.probes.engine.kernels import Kernels, KernelsUnavailable
from auditor.probes.engine.nvml import Nvml, NvmlRefusal, value
from tests import nvml_double
from tests.nvml_double import Machine, edited, healthy


def through(machine, expression):
    """What an expression over `nvml` and `handle` gives in a process with the doubled driver."""
    script = (
        "import json; from auditor.probes.engine.nvml import Nvml, NvmlRefusal\n"
        "nvml = Nvml(); handle = nvml.handle(0)\n"
        f"answer = {expression}\n"
        "print(json.dumps(['refused', answer.code, answer.word] if isinstance(answer, NvmlRefusal) else answer))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env={**os.environ, **machine.environment}
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_without_a_driver_every_call_is_refused():
    """This machine has none: the word says which part is missing, and nothing raises."""
    nvml = Nvml()
    if nvml.open() is None:
        pytest.skip("there is a driver here")
    answer = nvml.call("nvmlDeviceGetCount")
    assert isinstance(answer, NvmlRefusal) and answer.word in ("library_not_found", "driver_not_loaded")
    assert nvml.handle(0) == nvml.handle("GPU-1") == answer
    assert value(answer) is None and value(7) == 7
    assert nvml.constant("NVML_TEMPERATURE_GPU", 5) == 5


@pytest.mark.parametrize(
    ("edit", "expression", "answer"),
    [
        ({}, 'nvml.call("nvmlDeviceGetName", handle)', "NVIDIA H200"),
        (
            {"nvmlDeviceGetName": "ERR GPU is lost"},
            'nvml.call("nvmlDeviceGetName", handle)',
            ["refused", 15, "gpu_lost"],
        ),
        (
            {"nvmlDeviceGetName": "ERR GPU requires restart"},
            'nvml.call("nvmlDeviceGetName", handle)',
            ["refused", 16, "reset_required"],
        ),
        (
            {"nvmlDeviceGetName": "ERR Insufficient Permissions"},
            'nvml.call("nvmlDeviceGetName", handle)',
            ["refused", 4, "no_permission"],
        ),
        ({"nvmlDeviceGetName": "ERR 4711"}, 'nvml.call("nvmlDeviceGetName", handle)', ["refused", 4711, "error_4711"]),
        ({}, 'nvml.call("nvmlDeviceGetFanSpeed", handle)', ["refused", 3, "not_supported"]),
        ({}, 'nvml.call("nvmlOfNextYear", handle)', ["refused", 13, "function_not_found"]),
        ({}, 'nvml.call("nvmlDeviceGetName", nvml.handle("GPU-nobody"))', ["refused", 6, "not_found"]),
        ({}, "nvml.handle(9)", ["refused", 2, "invalid_argument"]),
        ({"nvmlDeviceGetName": "caf\u00e9"}, 'nvml.call("nvmlDeviceGetName", handle)', "caf\u00e9"),
    ],
)
def test_answers_and_refusals(machine, edit, expression, answer):
    """The driver's code with our word for it; a refused handle is handed through."""
    assert through(machine(edited(healthy("h200x1-guest"), 0, **edit)), expression) == answer


def test_a_symbol_that_the_driver_lacks_is_a_refusal(nvml_libraries, tmp_path):
    """A binding newer than the driver: the call is refused, the others answer."""
    libraries = nvml_double.build(tmp_path / "old", ["nvmlDeviceGetMarginTemperature"])
    double = Machine(tmp_path / "machine", libraries, healthy("h200x1-guest"))
    assert through(double, 'nvml.call("nvmlDeviceGetMarginTemperature", handle)') == [
        "refused",
        13,
        "function_not_found",
    ]
    assert through(double, 'nvml.call("nvmlDeviceGetName", handle)') == "NVIDIA H200"


def test_a_binding_older_than_the_driver_lacks_calls_not_facts(machine, tmp_path):
    """An nvidia-ml-py of years ago has neither event reasons nor fields nor the newer lists: the older calls answer."""
    import pynvml

    source = Path(pynvml.__file__).read_text(encoding="utf-8")
    for name in (
        "nvmlDeviceGetCurrentClocksEventReasons",
        "nvmlDeviceGetFieldValues",
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetMarginTemperature",
    ):
        assert f"def {name}(" in source
        source = source.replace(f"def {name}(", f"def _later_{name}(").replace(f"\n{name} =", f"\n_later_{name} =")
    (tmp_path / "pynvml.py").write_text(source, encoding="utf-8")
    double = machine(healthy("h200x1-guest"))
    double.environment["PYTHONPATH"] = str(tmp_path)
    sample = "__import__('auditor.probes.engine.watcher', fromlist=['x']).Sampler(nvml, None, gpu).sample()"
    facts = "(gpu := __import__('auditor.probes.engine.watcher', fromlist=['x']).list_gpus(nvml)[0])"
    row = through(double, f"{facts} and {sample}")
    _, celsius, memory_celsius, watts, hertz, _, reasons, *_ = row
    assert (celsius, memory_celsius, watts, hertz, reasons) == (42, None, 120.642, 495e6, 1)
    usage = "__import__('auditor.probes.engine.watcher', fromlist=['x']).Usage(nvml).of(gpu)"
    assert through(double, f"{facts} and {usage}")["processes"] == []


def test_a_driver_that_changed_under_its_library_is_told(machine):
    """An upgrade without a reboot: NVML 18."""
    profile = healthy("h200x1-guest")
    profile["system"]["nvmlInit"] = "ERR Driver/library version mismatch"
    assert through(machine(profile), 'nvml.call("nvmlDeviceGetCount")') == ["refused", 18, "driver_mismatch"]


# --- CUDA --------------------------------------------------------------------------------------------------------


def cuda(machine, **environment):
    """CUDA's own view in a process with the doubled driver."""
    script = "import json; from auditor.probes.engine import cuda_door; print(json.dumps(cuda_door.ask()))"
    ended = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={**os.environ, **machine.environment, **environment},
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_cuda_tells_its_devices_without_torch(machine):
    """Name, address, UUID, memory, attributes, peers, by the driver API alone."""
    double = machine(healthy("a100x8-nvswitch", 3))
    told = cuda(double)
    assert (told["refusal"], told["version"], len(told["devices"])) == (None, 12040, 3)
    first = told["devices"][0]
    assert first["uuid"] == double.profile["gpus"][0]["nvmlDeviceGetUUID"]
    assert (first["pci"], first["sms"], first["major"], first["minor"]) == ("0000:07:00.0", 108, 8, 0)
    assert first["memory_bytes"] == 85100068864
    assert told["peers"] == [[None, True, True], [True, None, True], [True, True, None]]


@pytest.mark.parametrize(
    ("code", "word"),
    [(100, "CUDA_ERROR_NO_DEVICE"), (802, "CUDA_ERROR_SYSTEM_NOT_READY"), (803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH")],
)
def test_cuda_says_why_not(machine, code, word):
    """802 is the fabric manager's: the word is evidence."""
    told = cuda(machine({**healthy("a100x8-nvswitch", 2), "cuda": {"cuInit": code}}))
    assert (told["refusal"], told["devices"]) == (word, [])


def test_without_libcuda_it_says_so():
    """A machine without a driver."""
    from auditor.probes.engine import cuda_door

    told = cuda_door.ask()
    assert told["refusal"] in (None, "library_not_found", "CUDA_ERROR_NO_DEVICE")
    assert isinstance(told["devices"], list)


# --- kernels -----------------------------------------------------------------------------------------------------


def test_kernels_say_why_they_cannot_be_made():
    """Without a CUDA torch: a sentence, no crash; a probe turns it into what its figure could not be."""
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    with pytest.raises(KernelsUnavailable, match="CUDA"):
        Kernels().compile('extern "C" __global__ void nothing() {}', "nothing")
    assert Kernels.Unavailable is KernelsUnavailable


def test_nvrtc_is_looked_for_beside_torch_first(tmp_path, monkeypatch):
    """Torch's wheels before conda's and the system's; its helper libraries are not it."""
    monkeypatch.setattr(kernels.sys, "prefix", str(tmp_path / "conda"))
    wheel = tmp_path / "site" / "nvidia" / "cuda_nvrtc" / "lib"
    for folder in (wheel, tmp_path / "conda" / "lib", tmp_path / "site" / "torch" / "lib"):
        folder.mkdir(parents=True)
    for file in (
        wheel / "libnvrtc.so.12",
        wheel / "libnvrtc-builtins.so.12.4",
        wheel / "libnvrtc.alt.so.12",
        tmp_path / "conda" / "lib" / "libnvrtc.so.11.2",
        tmp_path / "site" / "torch" / "lib" / "libnvrtc-672ee683.so.11.2",
    ):
        file.touch()
    found = [path for path in kernels.nvrtc_libraries(str(tmp_path / "site" / "torch")) if str(tmp_path) in path]
    assert [os.path.basename(path) for path in found] == [  # noqa: PTH119
        "libnvrtc.so.12",
        "libnvrtc-672ee683.so.11.2",
        "libnvrtc.so.11.2",
    ]


@pytest.mark.gpu
def test_a_kernel_runs_on_the_gpu():
    """Compiled by NVRTC, loaded by the driver, launched in torch's stream."""
    import ctypes

    import torch

    source = 'extern "C" __global__ void add(int* x, int y) { atomicAdd(x, y); }'
    out = torch.zeros(1, dtype=torch.int32, device="cuda")
    kernel = Kernels().compile(source, "add")
    kernel.launch((2, 1, 1), (32, 1, 1), [ctypes.c_void_p(out.data_ptr()), 3], torch.cuda.current_stream())
    assert out.item() == 192
    with pytest.raises(KernelsUnavailable, match="NVRTC"):
        Kernels().compile('extern "C" __global__ void broken() { nonsense }', "broken")
