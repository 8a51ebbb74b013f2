"""The shapes of the convolutions of DenseNet-121/169/201, ResNet-50/101/152 and MobileNetV2 (width 1.0), 224×224.

Sources: G. Huang et al., arXiv:1608.06993, table 1; K. He et al., arXiv:1512.03385, table 1, with a block's stride in
its 3×3 convolution as in torchvision; MobileNetV2 from common.topology. Timing a convolution needs no weights.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..topology import Conv2d, build
from .sparse import Shape

DENSENETS = {"densenet-121": (6, 12, 24, 16), "densenet-169": (6, 12, 32, 32), "densenet-201": (6, 12, 48, 32)}
RESNETS = {"resnet-50": (3, 4, 6, 3), "resnet-101": (3, 4, 23, 3), "resnet-152": (3, 8, 36, 3)}
NETWORKS = (*DENSENETS, *RESNETS, "mobilenetv2")
GROWTH = 32


@dataclass(frozen=True)
class Convolution:
    """A convolution of a network: its name, its shape, and whether its input is the output of a ReLU or ReLU6."""

    name: str
    shape: Shape
    after_relu: bool


@dataclass(frozen=True)
class Distinct:
    """A distinct shape. counts: number of convolutions of each network that have it, {"resnet-50": 3}."""

    shape: Shape
    counts: dict[str, int]
    after_relu: bool

    @property
    def count(self) -> int:
        """Number of convolutions of all networks with this shape."""
        return sum(self.counts.values())


def _square(batch: int, channels: int, size: int, outputs: int, kernel: int = 1, stride: int = 1) -> Shape:
    pads = ((kernel // 2,) * 2,) * 2
    both = (kernel, kernel), (stride, stride)
    return Shape(batch, channels, size, size, outputs, *both, pads)  # type: ignore[arg-type]


def _stem(batch: int) -> Convolution:
    return Convolution("stem", _square(batch, 3, 224, 64, 7, 2), False)


def densenet(blocks: tuple[int, ...], batch: int = 1) -> Iterator[Convolution]:
    """The convolutions of a DenseNet with `blocks` layers per dense block; all but the stem follow a ReLU."""
    yield _stem(batch)
    channels, size = 2 * GROWTH, 56
    for number, count in enumerate(blocks, 1):
        if number > 1:
            yield Convolution(f"transition{number - 1}", _square(batch, channels, size, channels // 2), True)
            channels, size = channels // 2, size // 2
        for layer in range(1, count + 1):
            yield Convolution(f"block{number}.{layer}.conv1", _square(batch, channels, size, 4 * GROWTH), True)
            yield Convolution(f"block{number}.{layer}.conv2", _square(batch, 4 * GROWTH, size, GROWTH, 3), True)
            channels += GROWTH


def resnet(blocks: tuple[int, ...], batch: int = 1) -> Iterator[Convolution]:
    """The convolutions of a ResNet with `blocks` bottleneck blocks per stage; all but the stem follow a ReLU."""
    yield _stem(batch)
    channels, size = 64, 56
    for stage, count in enumerate(blocks):
        narrow = 64 << stage
        for block in range(count):
            stride, name = (2 if stage and not block else 1), f"stage{stage + 1}.{block + 1}"
            yield Convolution(f"{name}.conv1", _square(batch, channels, size, narrow), True)
            yield Convolution(f"{name}.conv2", _square(batch, narrow, size, narrow, 3, stride), True)
            yield Convolution(f"{name}.conv3", _square(batch, narrow, size // stride, 4 * narrow), True)
            if not block:
                yield Convolution(f"{name}.shortcut", _square(batch, channels, size, 4 * narrow, 1, stride), True)
            channels, size = 4 * narrow, size // stride


def mobilenetv2(batch: int = 1) -> Iterator[Convolution]:
    """The convolutions of MobileNetV2. Expand layers and the head follow a linear bottleneck, which has no zeros."""
    written: dict[str, str] = {}
    for layer in build(1.0, 1000, 224, batch=batch):
        written[layer.output] = type(layer).__name__
        if isinstance(layer, Conv2d):
            n, c, h, w = layer.input_shapes[0]
            shape = Shape(n, c, h, w, layer.out_channels, layer.kernel_size, layer.stride, layer.padding, layer.groups)
            yield Convolution(layer.name, shape, written.get(layer.inputs[0]) in ("ReLU", "ReLU6"))


def convolutions(network: str, batch: int = 1) -> list[Convolution]:
    """The convolutions of one of NETWORKS, in the order of execution. ValueError for another name."""
    if network in DENSENETS:
        return list(densenet(DENSENETS[network], batch))
    if network in RESNETS:
        return list(resnet(RESNETS[network], batch))
    if network != "mobilenetv2":
        raise ValueError(f"network must be one of {', '.join(NETWORKS)}, got {network!r}")
    return list(mobilenetv2(batch))


def distinct(networks: Iterable[str] = NETWORKS, batch: int = 1) -> list[Distinct]:
    """The distinct shapes of these networks. after_relu: whether at least one layer of that shape follows a ReLU."""
    found: dict[Shape, Distinct] = {}
    for network in dict.fromkeys(networks):
        for one in convolutions(network, batch):
            made = found.setdefault(one.shape, Distinct(one.shape, {}, one.after_relu))
            made.counts[network] = made.counts.get(network, 0) + 1
            if one.after_relu and not made.after_relu:
                found[one.shape] = Distinct(one.shape, made.counts, True)
    return list(found.values())
