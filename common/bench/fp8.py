"""The suite "fp8": the 1×1 convolutions of MobileNetV2's 7×7 stage as products in fp16, int8 and fp8 (e4m3).

x (pixels, C) times the weight (O, C), random numbers, of which int8 and e4m3 have one scale per tensor. PyTorch's
products are cuBLAS's and cuBLASLt's: from fp16 to fp16, from int8 to int32, from e4m3 to fp16. Those of this project's
kernels: in fp16, and in int8 with int8 results. All are checked and then timed in turn, each in a CUDA graph.

"error" is against float64 on the numbers before rounding: that of a format. "deviation" is against float64 on the
rounded ones, what the arithmetic adds; it is what the check bounds.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from rich.console import Console

from .. import cuda, kernels
from ..cuda.graphs import gpu, on_stream
from ..kernels import int8
from ..measure import timing
from ..measure.roofline import ARITHMETIC, Work
from ..network.compare import relative_error
from ..quantize.formats import FORMATS, LARGEST
from ..report.results import Record, record
from . import driver
from .driver import Measured
from .late import LAYERS, Layer

SAMPLES = 20
CHECKED = 2048  # pixels whose results are compared
PRODUCTS = {"torch-fp16": "fp16", "torch-int8": "int8", "torch-fp8": "fp8", "ours-fp16": "fp16", "ours-int8": "int8"}
FORM = {"fp16": "fp16", "int8": "int8", "fp8": "e4m3"}  # of quantize.formats
ALLOWED = {"fp16": 2e-3, "int8": 2e-3, "fp8": 1e-2}  # deviation; tensor cores sum fp8 in fewer bits than float32 has
MULTIPLE = 16  # cuBLASLt's e4m3: both dimensions of the weight, and the pixels
CASES = tuple(layer for layer in LAYERS if layer.side == 7 and not layer.pool)


@dataclass(frozen=True, kw_only=True)
class Options(driver.Options):
    """cases: of CASES."""

    cases: tuple[str, ...] = ()

    CHOICES: ClassVar = {
        "cases": (tuple(layer.case for layer in CASES), tuple(layer.case for layer in CASES)),
        "batches": (None, (1, 32, 256)),
    }  # fmt: skip


@dataclass
class Numbers:
    """A product's random numbers: x (pixels, C), weight (O, C), float32; greatest |number| of both."""

    x: np.ndarray
    weight: np.ndarray

    @classmethod
    def of(cls, layer: Layer, batch: int) -> "Numbers":
        """Of a layer at a batch size; pixels are a multiple of MULTIPLE, 32 at least, as the libraries want them."""
        random, pixels = np.random.default_rng(0), batch * layer.side**2
        pixels = max(pixels + -pixels % MULTIPLE, 32)
        x = random.standard_normal((pixels, layer.channels), np.float32)
        weight = random.standard_normal((layer.outputs, layer.channels), np.float32) / np.float32(layer.channels**0.5)
        return cls(x, weight)

    @property
    def scales(self) -> tuple[float, float]:
        """The greatest |number| of x and of the weight."""
        return float(np.abs(self.x).max()), float(np.abs(self.weight).max())

    def exact(self, form: str | None = None) -> np.ndarray:
        """The product of the first CHECKED pixels in float64; form: of the numbers rounded to a format."""
        x, weight = self.x[:CHECKED], self.weight
        if form is not None:
            x, weight = FORMATS[form](x, self.scales[0]), FORMATS[form](weight, self.scales[1])
        return x.astype(np.float64) @ weight.T.astype(np.float64)


Product = tuple[Callable[[], Any], Callable[[Any], np.ndarray]]  # its call, and its result as (pixels, O) real numbers


def by_torch(numbers: Numbers) -> dict[str, Product]:
    """The three products of PyTorch on the GPU, by name."""
    import torch

    x, weight = torch.from_numpy(numbers.x).cuda(), torch.from_numpy(numbers.weight).cuda()
    halves = x.half(), weight.half().t()
    steps = [greatest / 127 for greatest in numbers.scales]
    codes = [(one / step).round().clamp(-127, 127).to(torch.int8) for one, step in zip((x, weight), steps, strict=True)]
    units = [torch.tensor(greatest / LARGEST, device="cuda") for greatest in numbers.scales]
    eights = [
        (one / unit).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn)
        for one, unit in zip((x, weight), units, strict=True)
    ]

    def real(result: Any) -> np.ndarray:
        return result.double().cpu().numpy()

    scale = {"scale_a": units[0], "scale_b": units[1], "out_dtype": torch.float16}
    return {
        "torch-fp16": (lambda: torch.mm(*halves), real),
        "torch-int8": (lambda: torch._int_mm(codes[0], codes[1].t()), lambda out: real(out) * steps[0] * steps[1]),
        "torch-fp8": (lambda: torch._scaled_mm(eights[0], eights[1].t(), **scale), real),
    }  # fmt: skip


def by_us(numbers: Numbers) -> dict[str, Product]:
    """The two products of this project's kernels, by name, on images of one row."""
    pixels, outputs = len(numbers.x), len(numbers.weight)
    images = np.ascontiguousarray(numbers.x.T)[None, :, None]  # (1, C, 1, pixels)
    filters = numbers.weight[:, :, None, None]

    def there(array: np.ndarray, dtype: Any) -> Any:
        return cuda.to_layout(cuda.asarray(array.astype(dtype)), "NHWC")

    out = cuda.to_layout(cuda.empty((1, outputs, 1, pixels), np.float16), "NHWC")
    codes_out = cuda.to_layout(cuda.empty((1, outputs, 1, pixels), np.int8), "NHWC")
    x, weight = there(images, np.float16), there(filters, np.float16)
    steps = [greatest / 127 for greatest in numbers.scales]
    x8, weight8 = (
        there(np.clip(np.rint(one / step), -127, 127), np.int8)
        for one, step in zip((images, filters), steps, strict=True)
    )
    step = float(np.abs(numbers.exact("int8")).max()) / int8.HIGH
    bias = cuda.asarray(np.zeros(outputs, np.int32))
    multiplier = cuda.asarray(np.full(outputs, steps[0] * steps[1] / step, np.float32))
    return {
        "ours-fp16": (
            lambda: kernels.pointwise(x, weight, out=out),
            lambda _: cuda.asnumpy(out)[0, :, 0].T.astype(np.float64),
        ),
        "ours-int8": (
            lambda: kernels.pointwise_int8(x8, weight8, bias, multiplier, out=codes_out),
            lambda _: cuda.asnumpy(codes_out)[0, :, 0].T.astype(np.float64) * step,
        ),
    }  # fmt: skip


def allowed(name: str, numbers: Numbers) -> float:
    """The largest deviation of a product: for ours in int8 what rounding to 255 codes may add."""
    if name != "ours-int8":
        return ALLOWED[PRODUCTS[name]]
    want = numbers.exact("int8")
    return float(0.51 * np.abs(want).max() / int8.HIGH / np.sqrt(np.mean(want**2)))


def measure(
    layer: Layer, batch: int, options: Options, console: Console,
    products: Sequence[Callable[[Numbers], Mapping[str, Product]]] = (by_us, by_torch),
    timer: Callable[..., Any] | None = None,
) -> Measured:  # fmt: skip
    """(records of the products with correct results, whether all are right). products, timer: for tests."""
    numbers, right = Numbers.of(layer, batch), True
    every: dict[str, Product] = {}
    for made in products:
        try:
            every |= made(numbers)
        except Exception as error:  # a library that is not there, or lacks the type; the others can still be timed
            console.print(f"{layer.case}, batch {batch}: not timed: {str(error).splitlines()[0]}", soft_wrap=True)
    exact, found = numbers.exact(), {}
    for name, (call, real) in every.items():
        form = FORM[PRODUCTS[name]]
        try:
            result = real(call())[:CHECKED]
        except Exception as error:
            console.print(f"{layer.case}, batch {batch}, {name}: not timed: {error}", soft_wrap=True)
            continue
        deviation = relative_error(result, numbers.exact(form))
        if not deviation <= allowed(name, numbers):
            console.print(f"{layer.case}, batch {batch}, {name}: [red]wrong[/] by {deviation:.1e}", soft_wrap=True)
            right = False
            continue
        found[name] = relative_error(result, exact), deviation
    if not found:
        return [], False
    timed = (timer or timing.compare)({name: every[name][0] for name in found}, samples=options.samples or SAMPLES)
    console.print(
        f"{layer.case}, batch {batch}: "
        + ", ".join(f"{n} {timed[n].median_us:.2f} µs (error {found[n][0]:.1e})" for n in found),
        soft_wrap=True,
    )
    return [_record(layer, batch, name, timed[name], numbers, *found[name]) for name in found], right


def _record(
    layer: Layer, batch: int, name: str, timed: Any, numbers: Numbers, error: float, deviation: float
) -> Record:
    precision = PRODUCTS[name]
    pixels, (outputs, channels) = len(numbers.x), numbers.weight.shape
    item, result = 2 if precision == "fp16" else 1, {"torch-int8": 4, "ours-int8": 1}.get(name, 2)
    work = Work(item * channels * (pixels + outputs) + result * pixels * outputs, 2 * pixels * outputs * channels)
    return record(
        "fp8", layer.case, name, precision=precision, arithmetic=ARITHMETIC[precision], batch=batch, timing=timed,
        work=work, error=error, deviation=float(f"{deviation:.3g}"),
    )  # fmt: skip


def run(options: Options, console: Console) -> Iterator[Measured]:
    """Yield (records, whether all were right) per layer and batch size. NoGpu on the simulator."""
    gpu()
    import torch  # noqa: F401  before the stream is chosen, which the libraries imported so far share

    with on_stream():
        for batch in options.batches:
            for layer in CASES:
                if layer.case in options.cases:
                    yield measure(layer, batch, options, console)


bench = driver.suite(
    "fp8", run, lambda new: driver.same(new, "suite", "case", "batch", which=lambda r: r["suite"] == "fp8")
)
