"""The held-out cases of the milestones: small, deterministic, built on the fly.

CASES[chapter] lists them: networks, and in chapter 04 kernels, each with the held-out shapes of its operator. A network
is in the ONNX spelling of some exporter (common.lab.spellings); the expected layers and arrays are those that
`topology.read_onnx_with_parameters` reads.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from onnx import ModelProto

from .. import topology, weights
from ..topology import BatchNorm2d, Conv2d, Graph, Layer
from ..topology.builder import Builder
from . import spellings

Numbers = dict[str, np.ndarray]
Network = Callable[[], tuple[Graph, Numbers]]


@dataclass(frozen=True)
class Case:
    """A held-out network.

    name       in the table of results
    network    builds the graph and its parameters
    spelling   rewrites applied to the model, in order
    opset      ONNX operator set
    refused    True if no layer expresses the network, so that an engine must raise an error
    """

    name: str
    network: Network
    spelling: tuple[Callable[[ModelProto], None], ...] = ()
    opset: int = 17
    refused: bool = False

    def model(self) -> ModelProto:
        """Build the ONNX model."""
        graph, parameters = self.network()
        model = topology.write_onnx(graph, parameters, opset=self.opset)
        for change in self.spelling:
            change(model)
        return model


@dataclass(frozen=True)
class KernelCase:
    """A kernel on the held-out shapes of its operator (operators.py).

    name   of the kernel and of its file, kernels/<name>.cu
    """

    name: str
    refused: bool = False

    @property
    def file(self) -> str:
        """The engine's file that defines the kernel."""
        return f"kernels/{self.name}.cu"


def mobilenet(width: float, size: int | tuple[int, int], classes: int, **options: Any) -> Network:
    """MobileNetV2 with seeded weights; its batch-norms are folded unless batch_norm=True.

    width: channel multiplier; size: of the input, (height, width) or one number for both.
    """

    def make() -> tuple[Graph, Numbers]:
        unfolded = topology.build(width, classes, size, **{**options, "batch_norm": True})
        parameters = weights.seeded_parameters(unfolded)
        if options.get("batch_norm"):
            return unfolded, parameters
        return weights.fold_batch_norm(unfolded, parameters)

    return make


def keras_mobilenet() -> tuple[Graph, Numbers]:
    """MobileNetV2 whose stride-2 convolutions pad only at the bottom and the right, as in TensorFlow."""
    graph, parameters = mobilenet(0.25, 64, 6)()
    layers = tuple(
        replace(layer, padding=((0, 1), (0, 1))) if isinstance(layer, Conv2d) and layer.stride == (2, 2) else layer
        for layer in graph
    )
    return replace(graph, layers=layers), parameters


def resnet() -> tuple[Graph, Numbers]:
    """ResNet-20 for 7 classes, input (2, 3, 24, 16), with seeded weights."""
    graph = topology.resnet20(num_classes=7, input_size=(24, 16), batch=2)
    return graph, weights.seeded_parameters(graph)


def branches() -> tuple[Graph, Numbers]:
    """Concat, MaxPool, asymmetric padding and stride, dilation, groups, and batch-norms in several positions.

    `norm1` follows a convolution with a bias, `norm2` a depthwise convolution. Three cannot be folded: the output of
    `norm3`'s convolution is also read by an addition, `norm4` follows a concatenation, `norm5` a pooling.
    """
    net = Builder(1, 4, (31, 22), 5)

    def conv(name: str, source: Layer | None, channels: int, kernel: tuple[int, int], **fields: Any) -> Layer:
        shape = source.output_shape if source else net.input_shape
        fields = {"weight": f"{name}.weight", "bias": f"{name}.bias", **fields}
        sides = {"in_channels": shape[1], "out_channels": channels, "kernel_size": kernel}
        return net.add(Conv2d, name, *([source] if source else []), **sides, **fields)

    def norm(name: str, source: Layer, eps: float) -> Layer:
        names = {field: f"{name}.{field}" for field in ("weight", "bias", "running_mean", "running_var")}
        return net.add(BatchNorm2d, name, source, num_features=source.output_shape[1], eps=eps, **names)

    stem = conv("stem", None, 12, (5, 3), stride=(2, 1), padding=((2, 1), (0, 1)))
    stem = net.add(topology.ReLU6, "act0", norm("norm1", stem, 1e-3))
    pooled = net.add(topology.MaxPool2d, "pool1", stem, kernel_size=(3, 2), stride=(2, 2), padding=((1, 0), (0, 1)))
    left = conv("left", pooled, 12, (3, 3), padding=((2, 2), (1, 1)), dilation=(2, 1), groups=12, bias=None)
    left = net.add(topology.ReLU, "act1", norm("norm2", left, 1e-5))
    right = conv("right", pooled, 12, (1, 1), groups=3, bias=None)
    right = net.add(topology.ResidualAdd, "sum1", norm("norm3", right, 1e-5), right)
    both = norm("norm4", net.add(topology.Concat, "both", left, right, pooled), 1e-2)
    mixed = conv("mixed", net.add(topology.ReLU6, "act2", both), 12, (3, 3), padding=((1, 1), (1, 1)), groups=2)
    mixed = net.add(topology.ResidualAdd, "sum2", pooled, mixed)
    narrow = net.add(topology.MaxPool2d, "pool2", mixed, kernel_size=(2, 2), stride=(2, 1))
    norm("norm5", narrow, 1e-5)
    graph = net.finish_with_classifier("classifier", "branches")
    return graph, drawn(graph)


def windows() -> tuple[Graph, Numbers]:
    """Windows of stride 2 on even sizes: without padding, padded on all sides, and only at the top and the left.

    A window with a dilation is padded so that the size stays.
    """
    net = Builder(1, 3, (46, 38), 4)

    def conv(name: str, source: Layer | None, channels: int, kernel: int, **fields: Any) -> Layer:
        in_channels = source.output_shape[1] if source else 3
        sides = {"in_channels": in_channels, "out_channels": channels, "kernel_size": (kernel, kernel)}
        names = {"weight": f"{name}.weight", "bias": f"{name}.bias"}
        return net.add(Conv2d, name, *([source] if source else []), **sides, **names, **fields)

    around, before = ((1, 1), (1, 1)), ((1, 0), (1, 0))
    layer = conv("none", None, 6, 3, dilation=(2, 1))  # 42 × 36
    layer = conv("around", layer, 6, 3, stride=(2, 2), padding=around, groups=6)  # 21 × 18
    layer = net.add(topology.ReLU6, "act", layer)
    wide = ((2, 2), (1, 1))
    layer = conv("dilated", layer, 6, 3, dilation=(2, 1), padding=wide, groups=6)  # 21 × 18
    layer = net.add(topology.MaxPool2d, "largest", layer, kernel_size=(2, 3))  # 20 × 16
    layer = conv("before", layer, 8, 3, stride=(2, 2), padding=before)  # 10 × 8
    conv("last", layer, 8, 3, stride=(2, 2))  # 4 × 3
    graph = net.finish_with_classifier("classifier", "windows")
    return graph, drawn(graph)


def norms_in_a_row() -> tuple[Graph, Numbers]:
    """Two batch-norms after each other, twice. Of each pair a convolution can take in the first one only."""
    net = Builder(2, 5, (17, 12), 4)

    def conv(name: str, source: Layer | None, channels: int, kernel: int, **fields: Any) -> Layer:
        in_channels = source.output_shape[1] if source else 5
        sides = {"in_channels": in_channels, "out_channels": channels, "kernel_size": (kernel, kernel)}
        return net.add(Conv2d, name, *([source] if source else []), **sides, weight=f"{name}.weight", **fields)

    def norm(name: str, source: Layer, eps: float) -> Layer:
        names = {field: f"{name}.{field}" for field in ("weight", "bias", "running_mean", "running_var")}
        return net.add(BatchNorm2d, name, source, num_features=source.output_shape[1], eps=eps, **names)

    layer = norm("b", norm("a", conv("dense", None, 6, 3, bias="dense.bias"), 1e-3), 1e-2)
    layer = conv("depthwise", net.add(topology.ReLU6, "act", layer), 6, 3, groups=6)
    norm("d", norm("c", layer, 1e-5), 1e-3)
    graph = net.finish_with_classifier("classifier", "two batch-norms in a row")
    return graph, drawn(graph)


def two_details() -> ModelProto:
    """A small model whose bias is an Add of (1, 4, 1, 1) and whose Linear is a MatMul of (4, 2): an example."""
    net = Builder(1, 3, (5, 5), 2)
    sides = {"in_channels": 3, "out_channels": 4, "kernel_size": (1, 1)}
    net.add(Conv2d, "conv", **sides, weight="conv.weight", bias="conv.bias")
    graph = net.finish_with_classifier("linear", "two details")
    spelling = (spellings.biases_added, spellings.matmul_and_add)
    return Case("two details", lambda: (graph, drawn(graph)), spelling).model()


def untrained() -> tuple[Graph, Numbers]:
    """MobileNetV2 with the batch-norms of a new module: gamma and variance 1, beta and mean 0."""
    graph, parameters = mobilenet(0.25, 32, 5, batch_norm=True)()
    for layer in graph:
        if isinstance(layer, BatchNorm2d):
            values = ((layer.weight, 1), (layer.bias, 0), (layer.running_mean, 0), (layer.running_var, 1))
            parameters |= {name: np.full_like(parameters[name], value) for name, value in values}
    return graph, parameters


def drawn(graph: Graph) -> Numbers:
    """Random float32 parameters, the same on every machine, scaled so that activations keep their magnitude."""
    random = np.random.RandomState(41)
    parameters = {}
    for name, shape in graph.parameter_shapes.items():
        array = random.random_sample(shape)  # 0 to 1
        if len(shape) > 1:
            array = (array - 0.5) * np.sqrt(12 / np.prod(shape[1:]))
        elif name.endswith("running_var"):
            array += 0.5
        elif name.endswith("weight"):
            array = array + 0.5
        else:
            array = array - 0.5
        parameters[name] = array.astype(np.float32)
    return parameters


CASES: dict[int, tuple[Any, ...]] = {
    1: (
        Case("MobileNetV2 0.35, 64×64", mobilenet(0.35, 64, 10)),
        Case("with batch-norms, 96×80", mobilenet(0.5, (96, 80), 3, batch_norm=True)),
        Case("operator set 9", mobilenet(0.25, 48, 10), (spellings.clips_with_attributes,)),
        Case("MatMul, constants as nodes", mobilenet(0.25, 40, 9), (spellings.matmul_and_add, spellings.constants_as_nodes)),  # noqa: E501
        Case("ReduceMean, open batch", mobilenet(0.25, 32, 8), (spellings.mean_over_axes, spellings.open_batch)),
        Case("ReduceMean, operator set 18", mobilenet(0.25, 32, 8), (spellings.mean_over_axes, spellings.gemm_not_transposed), 18),  # noqa: E501
        Case("a Keras converter's", keras_mobilenet, (spellings.same_padding, spellings.biases_added)),
        Case("ResNet-20, strange names", resnet, (spellings.strange_names, spellings.last_first)),
        Case("branches", branches),
        Case("branches, defaults left out", branches, (spellings.defaults_left_out, spellings.last_first)),
        Case("every auto_pad", windows, (spellings.every_auto_pad,)),
        Case("equal arrays, Identity", untrained, (spellings.equal_arrays_as_identities,)),
        Case("a mean over channels", mobilenet(0.25, 32, 8), (spellings.mean_over_channels,), refused=True),
    ),
    2: (
        Case("MobileNetV2 0.35, 32×32", mobilenet(0.35, 32, 10, batch_norm=True)),
        Case("folded already, fp16", mobilenet(0.25, 32, 10), (spellings.half_precision,)),
        Case("fp16 in typed fields", mobilenet(0.25, 32, 10), (spellings.half_precision, spellings.typed_fields)),
        Case("fp32 in typed fields", mobilenet(0.25, 32, 6, batch_norm=True), (spellings.typed_fields,)),
        Case("a Keras converter's", keras_mobilenet, (spellings.same_padding, spellings.biases_added, spellings.matmul_and_add)),  # noqa: E501
        Case("ResNet-20, strange names", resnet, (spellings.gemm_not_transposed, spellings.strange_names)),
        Case("branches, not all foldable", branches),
        Case("branches, constants as nodes", branches, (spellings.constants_as_nodes, spellings.defaults_left_out)),
        Case("two batch-norms in a row", norms_in_a_row),
        Case("equal arrays stored once", untrained, (spellings.equal_arrays_once,)),
    ),
    4: tuple(KernelCase(name) for name in ("add", "pool", "gemm", "conv", "pointwise", "depthwise")),
}  # fmt: skip
