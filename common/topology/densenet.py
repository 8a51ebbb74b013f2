"""A small DenseNet for images of 32×32, as a list of layers.

G. Huang et al., "Densely Connected Convolutional Networks" (arXiv:1608.06993), section 3: DenseNet-BC, with batch-norm
and ReLU before each convolution. A dense layer computes `growth` channels from all channels so far, by a 1×1
convolution to 4 · growth channels and a 3×3 one, and appends them: a concatenation. Between two blocks, a 1×1
convolution and an average pooling halve the channels and the size. A convolution that no batch-norm follows has a bias
here.
"""

from collections.abc import Sequence

from .builder import Builder
from .graph import Graph
from .layers import AveragePool2d, BatchNorm2d, Concat, Layer, Pair, ReLU


def densenet(
    growth: int = 12, blocks: Sequence[int] = (4, 4, 4), num_classes: int = 10, input_size: int | Pair = 32,
    in_channels: int = 3, batch: int = 1,
) -> Graph:  # fmt: skip
    """The layers of a DenseNet with batch-norms, from (batch, in_channels, H, W) to (batch, num_classes).

    growth: channels that a dense layer appends; blocks: the number of dense layers in each block; input_size: H = W, or
    (H, W). ValueError for invalid sizes, and for an input that becomes empty.
    """
    if not blocks or min(growth, *blocks) < 1:
        raise ValueError(f"growth and blocks: every number must be at least 1, got {growth} and {tuple(blocks)}")
    builder = Builder(batch, in_channels, input_size, num_classes)

    def norm(name: str, source: Layer) -> Layer:
        """A batch-norm and a ReLU."""
        names = {field: f"{name}.{field}" for field in ("weight", "bias", "running_mean", "running_var")}
        builder.add(BatchNorm2d, name, source, num_features=source.output_shape[1], **names)
        return builder.add(ReLU, f"{name}.relu")

    last = builder.conv("stem", None, 2 * growth, kernel=3)
    for number, count in enumerate(blocks):
        if number:
            channels = norm(f"between{number}.norm", last).output_shape[1]
            builder.conv(f"between{number}.conv", None, channels // 2, kernel=1)
            last = builder.add(AveragePool2d, f"between{number}.pool", kernel_size=(2, 2), stride=(2, 2))
        for index in range(count):
            path = f"block{number}.{index}"
            norm(f"{path}.norm1", last)
            builder.conv(f"{path}.conv1", f"{path}.norm2", 4 * growth, kernel=1)
            builder.add(ReLU, f"{path}.norm2.relu")
            new = builder.conv(f"{path}.conv2", None, growth, kernel=3)
            last = builder.add(Concat, f"{path}.concat", last, new)
    norm("norm", last)
    return builder.finish_with_classifier("classifier", "densenet")
