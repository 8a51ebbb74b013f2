"""The suite "families": networks of many kinds on this project's kernels, in fp32 and fp16: how far off, and how fast.

Twenty classifiers of torchvision, the head of an SSD, and a small U-Net. Weights are drawn at random from a seed, and
batch-norms have the statistics of noise pictures. Each network is exported to ONNX and run on new noise.

    error         against PyTorch in float64
    beside        who else ran on these pictures: ONNX Runtime on the CPU (fp32), PyTorch with weights and activations
                  in half precision (fp16); beside_error is the error of that one against float64
    off           against ONNX Runtime in fp32, in both precisions
    same_class    pictures whose largest output is float64's; of a classifier that is the class

A network that a precision cannot be compiled for, or whose error is above what is allowed, makes the suite fail. The
networks are judged in processes beside each other. Each saves its compiled plan, and when all are done the plans are
loaded and timed one by one: their logits must be those of the judged network, bit for bit.
"""

import multiprocessing
import os
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from rich.console import Console

from .. import cuda
from ..cuda.graphs import gpu, on_stream
from ..kernels.ladder import OF_HALVES
from ..measure import timing
from ..measure.roofline import ARITHMETIC
from ..network import Network
from ..network.compare import TOLERANCES, relative_error
from ..report.results import record
from . import driver, vision
from .driver import Measured

PRECISIONS = ("fp32", "fp16")
BATCH = 4
SAMPLES = 21
OURS = {"fp32": "3xtf32", "fp16": "fp16"}  # what multiplies on tensor cores where nothing is by halves
OVER = 2.0  # an error above the tolerance is allowed up to this times the other implementation's
WORKERS = 12
LARGE = ("vgg11_bn", "alexnet", "wide_resnet50_2", "efficientnet_v2_s", "inception_v3")  # which take longest, first


@dataclass(frozen=True, kw_only=True)
class Options(driver.Options):
    """Which networks to run, by torchvision's names, and vision.UNET."""

    networks: tuple[str, ...] = ()

    CHOICES: ClassVar = {
        "networks": (None, vision.NAMES), "batches": (None, (BATCH,)), "precisions": (PRECISIONS, PRECISIONS)
    }  # fmt: skip


def noise(batch: int, side: int) -> np.ndarray:
    """The pictures that networks are judged on."""
    return np.random.default_rng(1).standard_normal((batch, 3, side, side), np.float32)


def in_torch(module: Any, x: np.ndarray, dtype: str) -> tuple[np.ndarray, ...]:
    """A module's outputs with weights and activations of a dtype of PyTorch, on the GPU where there is one."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    kind = getattr(torch, dtype)
    try:
        with torch.no_grad():
            found = module.to(device, kind)(torch.from_numpy(x).to(device, kind))
        several = found if isinstance(found, tuple) else (found,)
        return tuple(one.cpu().double().numpy() for one in several)
    finally:
        module.to("cpu", torch.float32)


def in_onnxruntime(model: Any, x: np.ndarray) -> tuple[np.ndarray, ...]:
    """The outputs of ONNX Runtime on the CPU, in fp32."""
    import onnxruntime

    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return tuple(session.run(None, {"input": x}))


def error_of(found: Sequence[np.ndarray], want: Sequence[np.ndarray]) -> float:
    """The largest relative error of several outputs; NaN if any of them holds one."""
    return float(np.max([relative_error(one, other) for one, other in zip(found, want, strict=True)]))


def largest(outputs: Sequence[np.ndarray]) -> np.ndarray:
    """Where the first output is largest, for each picture; -1 where it holds a NaN."""
    flat = np.asarray(outputs[0]).reshape(len(outputs[0]), -1)
    return np.where(np.isnan(flat).any(1), -1, flat.argmax(1))


@dataclass(frozen=True)
class Judged:
    """A network's result beside float64's and another implementation's; the keys as at the top of this file.

    plan: the file of the compiled plan; logits: the first output, as the network gave it.
    """

    name: str
    side: int
    precision: str
    batch: int
    error: float
    beside: str
    beside_error: float
    off: float
    same_class: int
    plan: Path
    logits: np.ndarray

    @property
    def allowed(self) -> float:
        """The tolerance of the precision, or OVER times the other implementation's error if that is more."""
        return max(TOLERANCES[self.precision], OVER * self.beside_error)

    @property
    def right(self) -> bool:
        """Whether the error is allowed; not so for NaN."""
        return self.error <= self.allowed

    def told(self) -> str:
        """The line that the suite prints."""
        line = f"{self.name}, {self.precision}: error {self.error:.1e}, {self.beside} {self.beside_error:.1e}"
        return f"{line}; off onnxruntime {self.off:.1e}; {self.same_class} of {self.batch} largest are float64's"


def judge(name: str, side: int, precisions: Sequence[str], batch: int, folder: Path) -> Iterator[Judged]:
    """Run a network on `batch` pictures of noise in each precision, and compare it. Plans are saved in `folder`."""
    module = vision.made(name, side)
    model = vision.exported(module, side, vision.OUTPUTS.get(name, ("logits",)))
    x = noise(batch, side)
    want, there = in_torch(module, x, "float64"), in_onnxruntime(model, x)
    for precision in precisions:
        net = Network(model, layout="NHWC", dtype=precision)
        found = net(cuda.asarray(x))
        outputs = tuple(cuda.asnumpy(one) for one in (found if isinstance(found, tuple) else (found,)))
        beside, other = ("onnxruntime", there) if precision == "fp32" else ("torch", in_torch(module, x, "float16"))
        plan = folder / f"{name}-{precision}-{batch}.plan"
        net.save(plan, [x.shape])
        yield Judged(
            name, side, precision, batch, error_of(outputs, want), beside, error_of(other, want),
            error_of(outputs, there), int((largest(outputs) == largest(want)).sum()), plan, outputs[0],
        )  # fmt: skip


def _all_judged(name: str, precisions: Sequence[str], batch: int, folder: Path, threads: int) -> list[Judged | str]:
    """What `judge` gives, in a process of its own; a text in place of what failed."""
    import torch

    torch.set_num_threads(threads)
    found: list[Judged | str] = []
    try:
        with on_stream():
            found.extend(judge(name, vision.side_of(name), precisions, batch, folder))
    except Exception as error:
        found.append(f"{name}, {precisions[len(found)]}: {type(error).__name__}: {error}")
    return found


def measure(judged: Judged, options: Options) -> Measured:
    """(the record of a judged network, timed from its saved plan; whether its logits are still the same)."""
    net = Network.load(judged.plan)
    shape = (judged.batch, 3, judged.side, judged.side)
    same = np.array_equal(cuda.asnumpy(_first(net(cuda.asarray(noise(judged.batch, judged.side))))), judged.logits)
    if not same:
        return [], False
    program = net.program(shape, arena=True)
    of_halves = judged.precision == "fp32" and any(OF_HALVES in told for told in program.told)
    found = record(
        "families", judged.name, "ours", precision=judged.precision, batch=judged.batch,
        arithmetic=ARITHMETIC["3xfp16" if of_halves else OURS[judged.precision]],
        timing=timing.time(program.launch, samples=options.samples or SAMPLES), error=judged.error, layout="NHWC",
        launch="graph", side=judged.side, beside=judged.beside, beside_error=float(f"{judged.beside_error:.3g}"),
        off=float(f"{judged.off:.3g}"), same_class=judged.same_class,
    )  # fmt: skip
    return [found], True


def _first(outputs: Any) -> Any:
    return outputs[0] if isinstance(outputs, tuple) else outputs


def report(one: Judged | str, console: Console) -> bool:
    """Print what a network gave; whether it is right."""
    if isinstance(one, str):
        console.print(f"[red]failed[/] {one}", soft_wrap=True, highlight=False)
        return False
    wrong = "" if one.right else f": [red]wrong[/], {one.allowed:.1e} is allowed"
    console.print(one.told() + wrong, soft_wrap=True, highlight=False)
    return one.right


def _futures(pool: ProcessPoolExecutor, options: Options, folder: Path, workers: int) -> list[Future]:
    first = [name for name in LARGE if name in options.networks]
    threads = max(1, (os.cpu_count() or 1) // workers)
    return [
        pool.submit(_all_judged, name, options.precisions, batch, folder, threads)
        for name in [*first, *(name for name in options.networks if name not in first)]
        for batch in options.batches
    ]


def run(options: Options, console: Console) -> Iterator[Measured]:
    """Yield ([record], whether it was right) per network and precision. NoGpu on the simulator."""
    gpu()
    workers = min(WORKERS, len(options.networks), os.cpu_count() or 1)
    with tempfile.TemporaryDirectory() as folder:
        right: list[Judged] = []
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(workers, context) as pool:
            for future in _futures(pool, options, Path(folder), workers):
                for one in future.result():
                    if report(one, console):
                        right.append(one)
                    else:
                        yield [], False
        with on_stream():
            for one in right:
                records, same = measure(one, options)
                if not same:
                    console.print(f"{one.name}, {one.precision}: [red]wrong[/], the saved plan gives other logits")
                yield records, same


bench = driver.suite("families", run)
