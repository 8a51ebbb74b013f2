"""The suite "errors": how far a network's output is from float64, in each arithmetic that counts as fp32.

    python -m common bench errors --network digits

Networks: MobileNetV2 with seeded weights and the digits network, whose clamps bound all tensors, and ResNet-20, which
has none. Inputs: parts of a photograph (of digits: the test digits), and noise. Each is run by the library's strict
fp32 and by ours, step by step and with fused blocks.

On the simulator the sums of tensor cores are rounded to nearest, on a card they are truncated: there it shows what
splitting numbers costs, and only on a card what sums cost as well.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from rich.console import Console

from .. import images, topology, weights
from ..kernels.ladder import OF_HALVES
from ..measure.roofline import ARITHMETIC
from ..network import Network, available
from ..network.compare import TOLERANCES, relative_error
from ..network.reference import run_layer
from ..report.results import Record
from . import driver
from .driver import Measured
from .operators import pictures as noise

NETWORKS: dict[str, Callable[[], Any]] = {
    "seeded": lambda: weights.model("seeded"),
    "digits": lambda: weights.model("digits"),
    "resnet20": weights.resnet20_model,
}
INPUTS = ("pictures", "noise")
NOISE_BOUND = 8.0  # of normal numbers: beyond it once in 10^15
CHECKED = 4  # images


@dataclass(frozen=True)
class Way:
    """A way to compute a network: the implementation and arithmetic of its records, and the options of a Network.

    The arithmetic is that of the 1×1 convolutions, nearly all of the multiply-adds of a MobileNetV2.
    """

    implementation: str
    arithmetic: str
    options: dict[str, Any]

    def network(self, case: "Case") -> Network:
        """The network, with the bound of the case's inputs where the arithmetic takes one."""
        options = dict(self.options)
        if self.arithmetic == ARITHMETIC["3xfp16"]:
            options["input_bound"] = case.bound
        return Network(case.model, **options)


WAYS = (
    Way("onnxruntime", ARITHMETIC["fp32"], {"backend": "onnxruntime"}),
    Way("torch", ARITHMETIC["fp32"], {"backend": "torch"}),
    Way("cudnn", ARITHMETIC["fp32"], {"backend": "cudnn"}),
    Way("ours step by step", ARITHMETIC["fp32"], {"arithmetic": "fma", "layout": "NHWC"}),
    Way("ours step by step", ARITHMETIC["3xtf32"], {"arithmetic": "tf32x3"}),
    Way("ours step by step", ARITHMETIC["3xfp16"], {"arithmetic": "halves"}),
    Way("ours", ARITHMETIC["3xtf32"], {"arithmetic": "tf32x3", "optimize": "latency"}),
    Way("ours", ARITHMETIC["3xfp16"], {"arithmetic": "halves", "optimize": "latency"}),
)


@dataclass(frozen=True, kw_only=True)
class Options(driver.Options):
    """What to check. networks: of NETWORKS; inputs: of INPUTS; all by default."""

    networks: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()

    CHOICES: ClassVar = {
        "networks": (tuple(NETWORKS), tuple(NETWORKS)), "inputs": (INPUTS, INPUTS), "batches": (None, (CHECKED,))
    }  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A network and a batch of inputs of a kind of INPUTS."""

    source: str
    inputs: str
    batch: int

    @cached_property
    def model(self) -> Any:
        """The onnx.ModelProto."""
        return NETWORKS[self.source]()

    @cached_property
    def x(self) -> np.ndarray:
        """(batch, C, H, W) float32."""
        shape = topology.read_onnx(self.model).input_shape[1:]
        return noise(self.batch, shape) if self.inputs == "noise" else _pictures(self.source, self.batch, shape)

    @property
    def bound(self) -> float:
        """On the magnitudes of all inputs of the kind."""
        return NOISE_BOUND if self.inputs == "noise" else _normalised_bound(self.source)

    @cached_property
    def reference(self) -> np.ndarray:
        """The output in float64, by PyTorch on the CPU."""
        import torch

        graph, parameters = weights.fold_batch_norm(*topology.read_onnx_with_parameters(self.model, self.x.shape))
        exact = {name: torch.from_numpy(np.array(value, np.float64)) for name, value in parameters.items()}
        tensors = {graph.input: torch.from_numpy(self.x.astype(np.float64))}
        with torch.no_grad():
            for layer in graph.layers:
                tensors[layer.output] = run_layer(layer, [tensors[name] for name in layer.inputs], exact)
        return tensors[graph.output].numpy()


def _pictures(source: str, batch: int, shape: tuple[int, ...]) -> np.ndarray:
    """Normalised pictures: the first test digits, or different windows of the sample photograph."""
    if source == "digits":
        return weights.digits_input(weights.digits_split().test_images[:batch])
    spec, (height, width) = weights.SOURCES["seeded"], shape[1:]
    photo = images.read(images.sample())
    lefts = np.linspace(0, photo.width // 2, batch).astype(int)
    windows = [photo.crop((left, 0, left + photo.width // 2, photo.height)) for left in map(int, lefts)]
    short = round(max(height, width) * 256 / 224)
    return np.concatenate([images.to_input(one, (height, width), short, spec.mean, spec.std) for one in windows])


def _normalised_bound(source: str) -> float:
    """The largest magnitude of pictures in 0 … 1 after the normalisation."""
    spec = weights.SOURCES["digits" if source == "digits" else "seeded"]
    return max(max(mean, 1 - mean) / std for mean, std in zip(spec.mean, spec.std, strict=True))


def measure(case: Case, console: Console) -> list[Record]:
    """The records of a case, one per Way that this machine has."""
    records: list[Record] = []
    for way in WAYS:
        if way.options.get("backend", "kernels") not in available():
            continue
        net = way.network(case)
        if way.arithmetic == ARITHMETIC["3xfp16"] and not any(OF_HALVES in told for told in net.plan().told):
            console.print(f"{net.graph.name}: no layer has a bound for halves")
            continue
        records.append(
            {
                "suite": "errors", "case": f"{net.graph.name}, {case.inputs}", "implementation": way.implementation,
                "precision": "fp32", "arithmetic": way.arithmetic, "batch": case.batch, "layout": net.layout,
                "error": float(f"{relative_error(net(case.x), case.reference):.3g}"),
            }
        )  # fmt: skip
    rows = [
        {**{key: r[key] for key in ("implementation", "arithmetic")}, "error": f"{r['error']:.2e}"} for r in records
    ]
    console.print(driver.table(rows, texts=2, title=f"{records[0]['case']}: ‖out − float64‖ / ‖float64‖"))
    return records


def _run(options: Options, console: Console) -> Iterator[Measured]:
    for source, kind, batch in itertools.product(options.networks, options.inputs, options.batches):
        records = measure(Case(source, kind, batch), console)
        yield records, all(r["error"] <= TOLERANCES["fp32"] for r in records)


bench = driver.suite("errors", _run)
