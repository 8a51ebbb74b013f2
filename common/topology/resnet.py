"""ResNet-20 for images of 32×32, as a list of layers.

K. He et al., "Deep Residual Learning for Image Recognition" (arXiv:1512.03385), section 4.2, with n = 3: a
convolution, three stages of three blocks, pooling, and a linear layer. A block is two 3×3 convolutions and the
shortcut around them. `ResNet20` is the same network as a PyTorch module.

If a block changes the shape, its shortcut is a 1×1 convolution (the paper's option B). Option A, subsampling and
zero-padded channels, has 2,752 parameters fewer, but no library has it as one operator.
"""

from .builder import Builder
from .graph import Graph
from .layers import Pair, ReLU, ResidualAdd

STAGES = (16, 32, 64)  # channels of each stage; the second and third begin with stride 2
BLOCKS = 3  # per stage: the paper's n; the network has 6n + 2 layers with weights


def resnet20(num_classes: int = 10, input_size: int | Pair = 32, in_channels: int = 3, batch: int = 1) -> Graph:
    """The layers of ResNet-20 with batch-norms, from (batch, in_channels, H, W) to (batch, num_classes).

    input_size is H = W, or (H, W). Layers and parameters are named as in the module `ResNet20`: the first
    convolution of block b in stage s is `stages.s.b.conv1`. ValueError for invalid sizes.
    """
    builder = Builder(batch, in_channels, input_size, num_classes)
    builder.conv("stem.0", "stem.1", STAGES[0], kernel=3)
    last = builder.add(ReLU, "stem.2")
    for stage, channels in enumerate(STAGES):
        for block in range(BLOCKS):
            path = f"stages.{stage}.{block}"
            shortcut = source = last
            stride = 2 if stage and not block else 1
            builder.conv(f"{path}.conv1", f"{path}.bn1", channels, kernel=3, stride=stride)
            builder.add(ReLU, f"{path}.relu1")
            branch = builder.conv(f"{path}.conv2", f"{path}.bn2", channels, kernel=3)
            if stride != 1 or channels != source.output_shape[1]:
                shortcut = builder.conv(f"{path}.shortcut.0", f"{path}.shortcut.1", channels, 1, stride, source=source)
            builder.add(ResidualAdd, f"{path}.add", branch, shortcut)
            last = builder.add(ReLU, f"{path}.relu2")
    return builder.finish_with_classifier("classifier", "resnet20")
