"""ResNet-20 for pictures of 32×32, as the list of layers that its paper describes.

K. He et al., "Deep Residual Learning for Image Recognition" (arXiv:1512.03385), section 4.2, with n = 3: a
convolution, three stages of three blocks, pooling, and a linear layer. A block is two 3×3 convolutions and the
shortcut around them. `ResNet20` is the same network as a PyTorch module.

Where a block changes the shape, the shortcut is a 1×1 convolution (the paper's option B). Option A would leave
out pixels and append channels of zeros: an operator that no library has as one, for 2,752 parameters less.
"""

from .graph import Graph
from .layers import BatchNorm2d, Conv2d, GlobalAveragePool, Layer, Linear, Pair, ReLU, ResidualAdd

STAGES = (16, 32, 64)  # channels; from the second on, a stage begins with stride 2
BLOCKS = 3  # a stage: the paper's n, of 6n + 2 layers with weights


def resnet20(num_classes: int = 10, input_size: int | Pair = 32, in_channels: int = 3, batch: int = 1) -> Graph:
    """The layers of ResNet-20 with batch-norms, from (batch, in_channels, H, W) to (batch, num_classes).

    input_size is H = W, or (H, W). Layers and parameters are named as in the module `ResNet20`: the first
    convolution of block b in stage s is `stages.s.b.conv1`. ValueError where the numbers describe no network.
    """
    height, width = (input_size, input_size) if isinstance(input_size, int) else input_size
    input_shape = (batch, in_channels, height, width)
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

    def conv(name: str, norm: str, out_channels: int, kernel: int, stride: int = 1, source: Layer | None = None):
        """A convolution, of `source` or of the layer before it, that keeps the size at stride 1; its batch-norm."""
        before = source or (layers[-1] if layers else None)
        add(
            Conv2d,
            name,
            *([source] if source else []),
            in_channels=before.output_shape[1] if before else in_channels,
            out_channels=out_channels,
            kernel_size=(kernel, kernel),
            stride=(stride, stride),
            padding=((kernel // 2, kernel // 2), (kernel // 2, kernel // 2)),
            weight=f"{name}.weight",
        )
        statistics = {field: f"{norm}.{field}" for field in ("weight", "bias", "running_mean", "running_var")}
        return add(BatchNorm2d, norm, num_features=out_channels, **statistics)

    conv("stem.0", "stem.1", STAGES[0], kernel=3)
    last = add(ReLU, "stem.2")
    for stage, channels in enumerate(STAGES):
        for block in range(BLOCKS):
            path = f"stages.{stage}.{block}"
            shortcut = source = last
            stride = 2 if stage and not block else 1
            conv(f"{path}.conv1", f"{path}.bn1", channels, kernel=3, stride=stride)
            add(ReLU, f"{path}.relu1")
            branch = conv(f"{path}.conv2", f"{path}.bn2", channels, kernel=3)
            if stride != 1 or channels != source.output_shape[1]:
                shortcut = conv(f"{path}.shortcut.0", f"{path}.shortcut.1", channels, 1, stride, source)
            add(ResidualAdd, f"{path}.add", branch, shortcut)
            last = add(ReLU, f"{path}.relu2")
    add(GlobalAveragePool, "pool")
    add(
        Linear,
        "classifier",
        in_features=STAGES[-1],
        out_features=num_classes,
        weight="classifier.weight",
        bias="classifier.bias",
    )
    return Graph(
        name=f"resnet20-{height}" + (f"x{width}" if width != height else ""),
        input="input",
        input_shape=input_shape,
        layers=tuple(layers),
        output="classifier",
    )
