"""Matrix products of seeded random data made on the device, one kind per dtype.

Random normal data, because the data decide: constants run 20-38 % faster than real numbers on the same
card (gpu-facts, "Data decides"). The second operand is column-major where the library wants it (int8, fp8).
"""

import contextlib
from typing import Any, Callable, Dict, Iterator, NamedTuple, Optional, Tuple

DTYPES = ("bf16", "fp16", "tf32", "fp32", "fp64", "int8", "fp8")
_CAPABILITY: Dict[str, Tuple[int, int]] = {"bf16": (8, 0), "tf32": (8, 0), "int8": (7, 5), "fp8": (8, 9)}
_CHECKED_ROWS = 64


class Product(NamedTuple):
    """A product ready to be called: out = a x b, and how many operations one call does."""

    dtype: str
    m: int
    n: int
    k: int
    a: Any
    b: Any
    call: Callable[[], Any]

    @property
    def operations(self) -> float:
        """Multiplications and additions of one call."""
        return 2.0 * self.m * self.n * self.k


def unavailable(dtype: str, device: str) -> Optional[str]:
    """Why this dtype cannot be multiplied here, or None."""
    import torch

    if device != "cuda":
        return None if dtype in ("bf16", "fp32") else f"{dtype}: not measured on a CPU"
    need = _CAPABILITY.get(dtype, (0, 0))
    have = torch.cuda.get_device_capability()
    if have < need:
        return f"{dtype}: needs compute capability {need[0]}.{need[1]}, this GPU has {have[0]}.{have[1]}"
    if dtype == "fp8" and not (hasattr(torch, "float8_e4m3fn") and hasattr(torch, "_scaled_mm")):
        return f"fp8: torch {torch.__version__} has no fp8 product"
    if dtype == "int8" and not hasattr(torch, "_int_mm"):
        return f"int8: torch {torch.__version__} has no int8 product"
    return None


def main_dtype(device: str) -> str:
    """The 16-bit dtype that training uses on this device: bf16, or fp16 before Ampere."""
    return "bf16" if unavailable("bf16", device) is None else "fp16"


def make(dtype: str, m: int, n: int, k: int, device: str, seed: int, scale: float = 1.0) -> Product:
    """Operands and call for one product; `scale` 0 gives zeros (only for checks of the method)."""
    import torch

    source = torch.Generator(device=device)
    source.manual_seed(seed)
    types = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp64": torch.float64}

    def normal(rows: int, columns: int) -> Any:
        wanted = types.get(dtype, torch.float32)
        return torch.randn(rows, columns, device=device, dtype=wanted, generator=source) * scale

    if dtype == "int8":
        a = torch.randint(-127, 128, (m, k), device=device, dtype=torch.int8, generator=source)
        b = torch.randint(-127, 128, (n, k), device=device, dtype=torch.int8, generator=source).t()
        return Product(dtype, m, n, k, a, b, lambda: torch._int_mm(a, b))
    if dtype == "fp8":
        a = normal(m, k).to(torch.float8_e4m3fn)
        b = normal(n, k).to(torch.float8_e4m3fn).t()
        one = torch.ones((), device=device, dtype=torch.float32)
        return Product(dtype, m, n, k, a, b, lambda: _scaled(torch, a, b, one))
    a, b = normal(m, k), normal(k, n)
    out = torch.empty(m, n, device=device, dtype=a.dtype)
    return Product(dtype, m, n, k, a, b, lambda: torch.mm(a, b, out=out))


def _scaled(torch: Any, a: Any, b: Any, one: Any) -> Any:
    out = torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True)
    return out[0] if isinstance(out, tuple) else out  # torch before 2.5 gave (out, amax)


@contextlib.contextmanager
def precision(dtype: str) -> Iterator[None]:
    """float32 products as tf32 for `tf32`, as true float32 for all else; as found afterwards."""
    import torch

    settings = torch.backends.cuda.matmul
    # torch 2.9 replaced allow_tf32 and warns where both are used.
    name, on, off = (
        ("fp32_precision", "tf32", "ieee") if hasattr(settings, "fp32_precision") else ("allow_tf32", True, False)
    )
    before = getattr(settings, name)
    setattr(settings, name, on if dtype == "tf32" else off)
    try:
        yield
    finally:
        setattr(settings, name, before)


def error_ratio(product: Product, out: Any, seed: int) -> float:
    """||out - reference|| / ||reference|| over a band of rows, the reference in float64 on the same device."""
    import torch

    rows = min(_CHECKED_ROWS, product.m)
    first = seed % (product.m - rows + 1)
    a = _double(torch, product.a[first : first + rows])
    reference = a @ _double(torch, product.b)
    distance = torch.linalg.vector_norm(_double(torch, out[first : first + rows]) - reference)
    return float(distance / torch.linalg.vector_norm(reference))


def _double(torch: Any, tensor: Any) -> Any:
    # float8 converts to float32 only
    return tensor.to(torch.float32 if tensor.element_size() == 1 else tensor.dtype).to(torch.float64)


def mismatches(first: Any, second: Any) -> int:
    """Elements that differ bit for bit (NaN equals itself here, +0 and -0 differ)."""
    import torch

    bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[first.element_size()]
    return int((first.view(bits) != second.view(bits)).sum())
