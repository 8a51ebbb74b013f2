"""The suite "families": torchvision's networks on this project's kernels, in fp32 and fp16: how far off, and how fast.

Each network has weights drawn at random from a seed, and batch-norms with the statistics of noise pictures. It is
exported to ONNX and run on new noise. The reference is PyTorch in float64. Beside our error stands that of ONNX Runtime
on the CPU (fp32), or of PyTorch with weights and activations in half precision (fp16), on the same pictures. A network
that a precision cannot be compiled for, or whose error is above what is allowed, makes the suite fail.
"""

import io
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from rich.console import Console

from .. import cuda
from ..cuda.graphs import gpu, on_stream
from ..kernels.ladder import OF_HALVES
from ..measure import timing
from ..measure.roofline import ARITHMETIC
from ..network import Network
from ..network.compare import TOLERANCES, relative_error, top
from ..report.results import record
from . import driver
from .driver import Measured

# torchvision's names: one network of each family, of some the smallest and a later one. Side of a picture: 224, or
FAMILIES = (
    "alexnet", "convnext_tiny", "densenet121", "efficientnet_b0", "efficientnet_v2_s", "googlenet", "inception_v3",
    "mnasnet1_0", "mobilenet_v2", "mobilenet_v3_large", "mobilenet_v3_small", "regnet_x_400mf", "regnet_y_400mf",
    "resnet18", "resnet50", "resnext50_32x4d", "shufflenet_v2_x1_0", "squeezenet1_1", "vgg11_bn", "wide_resnet50_2",
)  # fmt: skip
SIDES = {"inception_v3": 299}
PRECISIONS = ("fp32", "fp16")
BATCH = 4
SAMPLES = 21
OURS = {"fp32": "3xtf32", "fp16": "fp16"}  # what multiplies on tensor cores where nothing is by halves
OVER_HALF = 2.0  # fp16: an error above the tolerance is allowed up to this times PyTorch's own in half precision


@dataclass(frozen=True, kw_only=True)
class Options(driver.Options):
    """Which networks to run, by torchvision's names."""

    networks: tuple[str, ...] = ()

    CHOICES: ClassVar = {
        "networks": (None, FAMILIES), "batches": (None, (BATCH,)), "precisions": (PRECISIONS, PRECISIONS)
    }  # fmt: skip


def made(name: str, side: int, seed: int = 0) -> Any:
    """A network of torchvision in evaluation mode, on the CPU. RuntimeError without torchvision, ValueError for a name.

    Batch-norms have the statistics of noise, so that activations neither vanish nor explode.
    """
    import torch

    try:
        from torchvision import models
    except ImportError:
        raise RuntimeError("the suite families needs torchvision, which is not installed") from None
    if name not in models.list_models(module=models):
        raise ValueError(f"network must be a classifier of torchvision.models, got {name!r}")
    torch.manual_seed(seed)
    more = {"init_weights": True, "aux_logits": False} if name in ("googlenet", "inception_v3") else {}
    module = models.get_model(name, weights=None, **more)
    module.eval()
    for layer in module.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            layer.momentum = None  # the mean over all pictures seen
            layer.train()
    with torch.no_grad():
        module(torch.randn(8, 3, side, side))
    return module.eval()


def exported(module: Any, side: int) -> Any:
    """The network as an ONNX ModelProto for any number of pictures, as PyTorch's exporter writes it."""
    import onnx
    import torch

    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter's deprecation
        torch.onnx.export(
            module, (torch.zeros(1, 3, side, side),), file, dynamo=False, opset_version=17, input_names=["input"],
            output_names=["logits"], dynamic_axes={"input": {0: "n"}, "logits": {0: "n"}},
        )  # fmt: skip
    return onnx.load_model_from_string(file.getvalue())


def others_error(module: Any, model: Any, x: np.ndarray, want: np.ndarray, precision: str) -> tuple[str, float]:
    """(who, its error): ONNX Runtime on the CPU in fp32; PyTorch in half precision, on the GPU where there is one."""
    import torch

    if precision == "fp32":
        import onnxruntime

        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        return "onnxruntime", relative_error(session.run(None, {"input": x})[0], want)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    half = module.to(device).half()
    try:
        with torch.no_grad():
            logits = half(torch.from_numpy(x).to(device).half()).float().cpu().numpy()
    finally:
        module.to("cpu").float()
    return "torch", relative_error(logits, want)


@dataclass(frozen=True)
class Judged:
    """A network's result beside float64's and another implementation's. same_class: pictures whose class is right."""

    net: Network
    error: float
    beside: str
    beside_error: float
    same_class: int

    @property
    def allowed(self) -> float:
        """The tolerance of the network's precision; in fp16 at least OVER_HALF times the other one's error."""
        return max(TOLERANCES[self.net.dtype], OVER_HALF * self.beside_error if self.net.dtype == "fp16" else 0.0)

    @property
    def right(self) -> bool:
        """Whether the error is allowed; not so for NaN."""
        return self.error <= self.allowed


def judge(module: Any, side: int, precision: str, batch: int) -> Judged:
    """Run a network on `batch` pictures of noise, (batch, 3, side, side), and compare it with float64."""
    import torch

    model = exported(module, side)
    x = np.random.default_rng(1).standard_normal((batch, 3, side, side), np.float32)
    with torch.no_grad():
        want = module.double()(torch.from_numpy(x).double()).numpy()
    module.float()
    net = Network(model, layout="NHWC", dtype=precision)
    logits = cuda.asnumpy(net(cuda.asarray(x)))
    same = int((top(logits, 1) == top(want, 1)).sum())
    beside, error = others_error(module, model, x, want, precision)
    return Judged(net, relative_error(logits, want), beside, error, same)


def measure(name: str, precision: str, batch: int, options: Options, console: Console) -> Measured:
    """(the record of a network, if it is right; whether it is)."""
    side = SIDES.get(name, 224)
    judged = judge(made(name, side), side, precision, batch)
    line = f"{name}, {precision}: error {judged.error:.1e}, {judged.beside} {judged.beside_error:.1e}"
    line += f"; {judged.same_class} of {batch} classes are float64's"
    console.print(line if judged.right else f"{line}: [red]wrong[/], {judged.allowed:.1e} is allowed", soft_wrap=True)
    if not judged.right:
        return [], False
    program = judged.net.program((batch, 3, side, side), arena=True)
    of_halves = precision == "fp32" and any(OF_HALVES in told for told in judged.net.plan().told)
    found = record(
        "families", name, "ours", precision=precision, batch=batch,
        arithmetic=ARITHMETIC["3xfp16" if of_halves else OURS[precision]],
        timing=timing.time(program.launch, samples=options.samples or SAMPLES), error=judged.error, layout="NHWC",
        launch="graph", side=side, beside=judged.beside, beside_error=float(f"{judged.beside_error:.3g}"),
        same_class=judged.same_class,
    )  # fmt: skip
    return [found], True


def run(options: Options, console: Console) -> Iterator[Measured]:
    """Yield ([record], whether it was right) per network and precision. NoGpu on the simulator."""
    gpu()
    with on_stream():
        for name in options.networks:
            for precision in options.precisions:
                for batch in options.batches:
                    yield measure(name, precision, batch, options, console)


bench = driver.suite("families", run)
