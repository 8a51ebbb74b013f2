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
    refused    True if no layer expresses the network, so that an engine must raise an error; in chapter 05, if no
               kernel of chapter 04 computes one of its layers: an engine raises an error, or its logits are right
    digits     the number of held-out digits that an engine has to read with it; in chapter 06, by kernels that are all
               the learner's own
    """

    name: str
    network: Network
    spelling: tuple[Callable[[ModelProto], None], ...] = ()
    opset: int = 17
    refused: bool = False
    digits: int = 0

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


def shortcuts() -> tuple[Graph, Numbers]:
    """Inverted residuals, and every neighbourhood of convolution, addition and activation that decides about fusion."""
    net = Builder(2, 3, (14, 11), 5)

    def conv(name: str, source: Layer | None, channels: int, kernel: int = 1, stride: int = 1, **options: Any) -> Layer:
        depthwise = channels if options.get("depthwise") else 1
        norm = f"{name}.norm" if options.get("norm", True) else None
        return net.conv(name, norm, channels, kernel, stride, depthwise, source)

    def act(name: str, source: Layer, kind: type[Layer] = topology.ReLU6) -> Layer:
        return net.add(kind, name, source)

    def add(name: str, *sources: Layer) -> Layer:
        return net.add(topology.ResidualAdd, name, *sources)

    def block(name: str, source: Layer, stride: int, channels: int) -> Layer:
        wide = 3 * source.output_shape[1]
        x = act(f"{name}.act1", conv(f"{name}.expand", source, wide))
        x = act(f"{name}.act2", conv(f"{name}.depthwise", x, wide, 3, stride, depthwise=True))
        return conv(f"{name}.project", x, channels)

    stem = act("stem.act", conv("stem", None, 8, 3, 2))
    first = add("add1", stem, block("block1", stem, 1, 8))
    second = block("block2", first, 2, 12)
    third = act("act3", add("add3", block("block3", second, 1, 12), second), topology.ReLU)  # added, then bounded
    meeting = add("add4", conv("left", third, 12), conv("right", third, 12, norm=False))  # two convolutions meet
    fifth = add("add5", meeting, act("act5", conv("bounded", meeting, 12)))  # bounded, then added
    plain = conv("plain", fifth, 12, norm=False)
    sixth = add("add6", act("act6", plain, topology.ReLU), plain)  # a convolution's output is read twice
    early = conv("early", sixth, 12)  # its addition needs what is computed later
    seventh = add("add7", early, act("act7", conv("late", sixth, 12, 5, depthwise=True)))
    act("dead.act", conv("dead", seventh, 7, 3))  # nobody reads it

    def norm(name: str, source: Layer) -> Layer:
        statistics = {field: f"{name}.{field}" for field in ("weight", "bias", "running_mean", "running_var")}
        return net.add(BatchNorm2d, name, source, num_features=12, **statistics)

    raw = conv("chained", seventh, 12, norm=False)
    act("dead.second", raw)  # only what nobody needs keeps the batch-norm from being folded
    chained = add("add9", sixth, add("add8", norm("chained.norm", raw), third))  # two additions, one after the other
    doubled = act("act8", norm("own", chained))  # a batch-norm that no convolution takes
    doubled = add("add10", doubled, doubled)
    head = {"in_channels": 12, "out_channels": 20, "kernel_size": (3, 3), "stride": (2, 2), "weight": "head.weight"}
    act("head.act", net.add(Conv2d, "head", doubled, padding=((0, 1), (0, 1)), **head))  # as TensorFlow pads
    graph = net.finish_with_classifier("classifier", "shortcuts")
    return graph, drawn(graph)


def small_resnet() -> tuple[Graph, Numbers]:
    """A ResNet of four blocks: convolutions of 3×3, shortcuts of stride 2 with a convolution of 1×1."""
    net = Builder(1, 3, (12, 9), 6)
    x = net.add(topology.ReLU, "act", net.conv("stem", "stem.norm", 8, 3))
    for number, (channels, stride) in enumerate(((8, 1), (12, 2), (12, 1), (16, 2))):
        name = f"block{number}"
        y = net.conv(f"{name}.1", f"{name}.norm1", channels, 3, stride, source=x)
        y = net.conv(f"{name}.2", f"{name}.norm2", channels, 3, source=net.add(topology.ReLU, f"{name}.act1", y))
        if stride == 2:
            x = net.conv(f"{name}.shortcut", f"{name}.norm3", channels, 1, stride, source=x)
        x = net.add(topology.ReLU, f"{name}.act2", net.add(topology.ResidualAdd, f"{name}.add", y, x))
    graph = net.finish_with_classifier("classifier", "small ResNet")
    return graph, drawn(graph)


def hard_swishes(images: int = 2, size: tuple[int, int] = (17, 14)) -> tuple[Graph, Numbers]:
    """MobileNetV3's blocks without squeeze-and-excite, and the neighbourhoods in which a hard-swish must stay alone."""
    net = Builder(images, 3, size, 5)

    def conv(
        name: str, source: Layer | None, channels: int, kernel: int = 1, stride: int = 1, deep: bool = True
    ) -> Layer:
        return net.conv(name, f"{name}.norm", channels, kernel, stride, 1 if deep else channels, source)

    def swish(name: str, source: Layer) -> Layer:
        return net.add(topology.HardSwish, name, source)

    def block(name: str, source: Layer, kernel: int, stride: int, wide: int, channels: int) -> Layer:
        x = swish(f"{name}.act1", conv(f"{name}.expand", source, wide))
        x = swish(f"{name}.act2", conv(f"{name}.depthwise", x, wide, kernel, stride, deep=False))
        return conv(f"{name}.project", x, channels)

    def add(name: str, *sources: Layer) -> Layer:
        return net.add(topology.ResidualAdd, name, *sources)

    stem = swish("stem.act", conv("stem", None, 8, 3, 2))
    first = add("add1", stem, block("block1", stem, 3, 1, 24, 8))
    second = block("block2", first, 5, 2, 20, 12)
    third = swish("act3", add("add3", block("block3", second, 3, 1, 36, 12), second))  # added before
    fourth = swish("act4", net.add(topology.ReLU, "relu4", conv("bounded", third, 12)))  # bounded before
    twice = conv("twice", fourth, 12)
    fifth = add("add5", swish("act5", twice), twice)  # the convolution's output is read twice
    sixth = swish("act6b", swish("act6a", conv("doubled", fifth, 10, 3)))  # the second one is alone
    added = add("add7", conv("dense", sixth, 10, 3), sixth)  # a dense convolution takes no addition in, so that
    seventh = swish("act7", net.add(topology.ReLU, "relu7", added))  # the ReLU is a step, on the kernel depthwise
    eighth = conv("branch", seventh, 9)
    ninth = add("add8", swish("act8", net.add(topology.ReLU6, "relu8", eighth)), eighth)  # so is this ReLU6
    swish("last.act", conv("last", conv("plain", ninth, 7), 20))  # a convolution reads a convolution
    graph = net.finish_with_classifier("classifier", "hard swishes")
    return graph, drawn(graph)


def inverted_residuals(images: int = 2, size: tuple[int, int] = (22, 17)) -> tuple[Graph, Numbers]:
    """Inverted residuals of stride 1 and 2, and every neighbourhood in which their three steps must stay apart."""
    net = Builder(images, 3, size, 5)

    def block(
        name: str, source: Layer, channels: int, kernel: int = 3, stride: int = 1, wide: int = 20,
        kinds: tuple[type[Layer], type[Layer]] = (topology.ReLU6, topology.ReLU6), **window: Any,
    ) -> tuple[Layer, Layer, Layer]:  # fmt: skip
        expanded = net.conv(f"{name}.expand", f"{name}.norm1", wide, 1, 1, 1, source)
        x = hidden = net.add(kinds[0], f"{name}.act1", expanded)
        if window:
            fields = {"kernel_size": (kernel, kernel), "stride": (stride, stride), "groups": wide, **window}
            names = {"weight": f"{name}.depthwise.weight", "bias": f"{name}.depthwise.bias"}
            sides = {"in_channels": wide, "out_channels": wide}
            x = net.add(Conv2d, f"{name}.depthwise", x, **sides, **fields, **names)
        else:
            x = net.conv(f"{name}.depthwise", f"{name}.norm2", wide, kernel, stride, wide, x)
        x = net.add(kinds[1], f"{name}.act2", x)
        return net.conv(f"{name}.project", f"{name}.norm3", channels, 1, 1, 1, x), hidden, x

    def add(name: str, *sources: Layer) -> Layer:
        return net.add(topology.ResidualAdd, name, *sources)

    stem = net.add(topology.ReLU6, "stem.act", net.conv("stem", "stem.norm", 6, 3, 2))
    first = add("add1", block("first", stem, 6, wide=37)[0], stem)
    second = block("second", first, 9, stride=2)[0]
    third = add("add3", second, block("third", second, 9, wide=54)[0])  # the residual comes first
    fourth = block("fourth", third, 7)[0]  # no residual
    beside = net.conv("beside", "beside.norm", 7, 1, 1, 1, fourth)
    other = add("other.add", block("other", fourth, 7)[0], beside)  # not the block's input is added
    bounded = net.add(topology.ReLU6, "bounded.act", block("bounded", other, 7)[0])
    late = net.add(topology.ReLU, "late.act", add("late.add", block("late", bounded, 7)[0], bounded))
    relu = block("relu", late, 7, kinds=(topology.ReLU, topology.ReLU6))[0]
    relu = block("relu2", relu, 7, kinds=(topology.ReLU6, topology.ReLU))[0]
    large = block("five", relu, 7, kernel=5)[0]
    unpadded = block("unpadded", large, 7, padding=((0, 0), (0, 0)))[0]
    four = block("four", unpadded, 7, kernel=4, stride=2, padding=((1, 1), (1, 1)))[0]
    x = four
    for which, name in ((1, "hidden"), (2, "filtered")):  # a tensor within the block is read twice
        found = block(name, x, 7)
        again = net.conv(f"{name}.again", f"{name}.norm", 7, 1, 1, 1, found[which])
        x = add(f"{name}.sum", add(f"{name}.add", found[0], x), again)
    doubled = block("doubled", x, 8)[0]
    add("doubled.add", doubled, doubled)  # project's output is read twice: an addition of its own
    graph = net.finish_with_classifier("classifier", "inverted residuals")
    biases = (".norm1.bias", ".norm2.bias")  # large ones: hidden values go beyond both bounds of ReLU6
    return graph, {name: array * (20 if name.endswith(biases) else 1) for name, array in drawn(graph).items()}


def one_other(name: str, kernel: tuple[int, int] = (3, 3), out_channels: int = 8, **fields: Any) -> Network:
    """A network with one convolution, called `name`, that no kernel of chapter 04 computes, between two that they do.

    It has 6 input channels. fields: of its Conv2d.
    """

    def make() -> tuple[Graph, Numbers]:
        net = Builder(1, 3, (11, 9), 4)
        net.add(topology.ReLU, "act1", net.conv("first", None, 6, 3))
        sides = {"in_channels": 6, "out_channels": out_channels, "kernel_size": kernel, "weight": f"{name}.weight"}
        net.add(Conv2d, name, **sides, **fields)
        net.add(topology.ReLU, "act2", net.conv("last", None, 10, 1))
        graph = net.finish_with_classifier("classifier", name)
        return graph, drawn(graph)

    return make


def at_each_side(padding: int) -> dict[str, Any]:
    """The field `padding` of a Conv2d, equal at all sides."""
    return {"padding": ((padding, padding), (padding, padding))}


dilated = one_other("dilated", dilation=(2, 2), **at_each_side(2))


def digits() -> tuple[Graph, Numbers]:
    """The trained MobileNetV2 that reads handwritten digits."""
    return weights.network("digits")


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
    5: (
        Case("residuals", shortcuts),
        Case("ResNet", small_resnet),
        Case("dilation", dilated, refused=True),
        Case("two groups", one_other("grouped", groups=2, **at_each_side(1)), refused=True),
        Case("multiplier", one_other("multiplied", out_channels=12, groups=6, **at_each_side(1)), refused=True),
        Case("3 × 1 kernel", one_other("tall", (3, 1)), refused=True),
        Case("382 digits", digits, digits=382),
    ),
    6: (
        KernelCase("block"),
        Case("inverted residuals", inverted_residuals),
        Case("MobileNetV2 0.35", mobilenet(0.35, (48, 33), 7, batch_norm=True)),
        Case("382 digits", digits, digits=382),
    ),
    4: tuple(KernelCase(name) for name in ("add", "pool", "gemm", "conv", "pointwise", "depthwise")),
}  # fmt: skip
OWN_FUSION = Case("your fusion", hard_swishes)  # of milestone 5, for an engine with a fusion of its own
