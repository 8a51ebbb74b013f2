"""MobileNetV2: the table of the paper, and the list of layers that it describes.

M. Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks" (arXiv:1801.04381), table 2.
"""

import math

from .builder import Builder
from .graph import Graph
from .layers import Layer, Pair, ReLU6, ResidualAdd

# t: expansion factor, c: output channels, n: number of blocks, s: stride of the first block
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
    """Channels before the classifier: at least 1280, also below width 1 (paper, section 5)."""
    check_width(width)
    return make_divisible(HEAD_CHANNELS * max(1.0, width))


def check_width(width: float) -> None:
    """Raise ValueError unless the width multiplier is a positive finite number."""
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

    input_size is H = W, or (H, W). With `batch_norm` every convolution is followed by a BatchNorm2d; without, it has a
    bias, for folded parameters. Parameters are named as in the state dict of torchvision's mobilenet_v2.
    ValueError for invalid sizes.
    """
    builder = Builder(batch, in_channels, input_size, num_classes)

    def conv(path: str, index: int, out_channels: int, kernel: int, stride: int = 1, groups: int = 1) -> Layer:
        """Append the convolution `path.index`, and with batch_norm the BatchNorm2d `path.(index + 1)`."""
        norm = f"{path}.{index + 1}" if batch_norm else None
        return builder.conv(f"{path}.{index}", norm, out_channels, kernel, stride, groups)

    conv("features.0", 0, stem_channels(width), kernel=3, stride=2)
    last = builder.add(ReLU6, "features.0.2")

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
                builder.add(ReLU6, f"{path}.{step}.2")
                step += 1
            # dw
            conv(f"{path}.{step}", 0, hidden, kernel=3, stride=stride, groups=hidden)
            builder.add(ReLU6, f"{path}.{step}.2")
            # pw-linear
            last = conv(path, step + 1, out_channels, kernel=1)
            if stride == 1 and channels == out_channels:
                last = builder.add(ResidualAdd, f"features.{block}.add", source, last)

    conv(f"features.{block + 1}", 0, head_channels(width), kernel=1)
    builder.add(ReLU6, f"features.{block + 1}.2")
    return builder.finish_with_classifier("classifier.1", f"mobilenetv2-{float(width)}")
