"""MobileNetV2 as the paper writes it: one table, and the list of layers that it describes.

M. Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks" (arXiv:1801.04381), table 2.
"""

import math

from .graph import Graph
from .layers import BatchNorm2d, Conv2d, GlobalAveragePool, Layer, Linear, Pair, ReLU6, ResidualAdd

# t: expansion factor, c: output channels, n: how many blocks, s: stride of the first of them
TABLE = (
    # t, c, n, s
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
STEM_CHANNELS = 32  # of the first convolution
HEAD_CHANNELS = 1280  # of the last convolution


def make_divisible(channels: float, divisor: int = 8) -> int:
    """The multiple of `divisor` nearest to `channels`, at least `divisor` and at least 90 % of `channels`."""
    rounded = max(divisor, int(channels + divisor / 2) // divisor * divisor)
    if rounded < 0.9 * channels:
        rounded += divisor
    return rounded


def stem_channels(width: float) -> int:
    """Channels after the first convolution, for the width multiplier `width`."""
    check_width(width)
    return make_divisible(STEM_CHANNELS * width)


def head_channels(width: float) -> int:
    """Channels before the classifier: a narrow network keeps its 1280 features (paper, section 5)."""
    check_width(width)
    return make_divisible(HEAD_CHANNELS * max(1.0, width))


def check_width(width: float) -> None:
    if not (math.isfinite(width) and width > 0):
        raise ValueError(f"width is {width}, not a positive number")


def build(
    width: float = 1.0,
    num_classes: int = 1000,
    input_size: int | Pair = 224,
    in_channels: int = 3,
    batch: int = 1,
    batch_norm: bool = False,
) -> Graph:
    """The layers of MobileNetV2, from (batch, in_channels, H, W) to (batch, num_classes).

    input_size is H = W, or (H, W). With `batch_norm` every convolution is followed by its BatchNorm2d;
    without, the batch-norms are folded into the convolutions, which then have a bias.
    Parameters are named as in the state dict of torchvision's mobilenet_v2.
    ValueError where the numbers describe no network.
    """
    height, width_px = (input_size, input_size) if isinstance(input_size, int) else input_size
    input_shape = (batch, in_channels, height, width_px)
    if min(*input_shape, num_classes) < 1:
        raise ValueError(f"input {input_shape} and {num_classes} classes: every number must be at least 1")
    layers: list[Layer] = []

    def add(kind: type[Layer], name: str, *sources: Layer, **fields) -> Layer:
        """Append a layer that reads the outputs of `sources`, or else of the layer before it."""
        before = sources or tuple(layers[-1:])
        layer = kind(
            name=name,
            inputs=tuple(source.output for source in before) or ("input",),
            output=name,
            input_shapes=tuple(source.output_shape for source in before) or (input_shape,),
            **fields,
        )
        layers.append(layer)
        return layer

    def conv(path: str, index: int, out_channels: int, kernel: int, stride: int = 1, groups: int = 1) -> Layer:
        """The convolution `path.index`, and with batch_norm the BatchNorm2d `path.(index + 1)`."""
        channels = layers[-1].output_shape[1] if layers else in_channels
        layer = add(
            Conv2d,
            f"{path}.{index}",
            in_channels=channels,
            out_channels=out_channels,
            kernel_size=(kernel, kernel),
            stride=(stride, stride),
            padding=((kernel // 2, kernel // 2), (kernel // 2, kernel // 2)),
            groups=groups,
            weight=f"{path}.{index}.weight",
            bias=None if batch_norm else f"{path}.{index}.bias",
        )
        if batch_norm:
            norm = f"{path}.{index + 1}"
            layer = add(
                BatchNorm2d,
                norm,
                num_features=out_channels,
                weight=f"{norm}.weight",
                bias=f"{norm}.bias",
                running_mean=f"{norm}.running_mean",
                running_var=f"{norm}.running_var",
            )
        return layer

    conv("features.0", 0, stem_channels(width), kernel=3, stride=2)
    last = add(ReLU6, "features.0.2")

    block = 0
    for t, c, n, s in TABLE:
        for i in range(n):
            block += 1
            stride = s if i == 0 else 1
            path = f"features.{block}.conv"
            source, channels = last, last.output_shape[1]
            hidden, out_channels = t * channels, make_divisible(c * width)
            step = 0
            if t != 1:
                # pw
                conv(f"{path}.{step}", 0, hidden, kernel=1)
                add(ReLU6, f"{path}.{step}.2")
                step += 1
            # dw
            conv(f"{path}.{step}", 0, hidden, kernel=3, stride=stride, groups=hidden)
            add(ReLU6, f"{path}.{step}.2")
            # pw-linear
            last = conv(path, step + 1, out_channels, kernel=1)
            if stride == 1 and channels == out_channels:
                last = add(ResidualAdd, f"features.{block}.add", source, last)

    conv(f"features.{block + 1}", 0, head_channels(width), kernel=1)
    add(ReLU6, f"features.{block + 1}.2")
    add(GlobalAveragePool, "pool")
    add(
        Linear,
        "classifier.1",
        in_features=head_channels(width),
        out_features=num_classes,
        weight="classifier.1.weight",
        bias="classifier.1.bias",
    )
    return Graph(
        name=f"mobilenetv2-{float(width)}-{height}" + (f"x{width_px}" if width_px != height else ""),
        input="input",
        input_shape=input_shape,
        layers=tuple(layers),
        output="classifier.1",
    )
