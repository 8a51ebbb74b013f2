"""A network's layers one after the other, each named and reading what came before."""

from .graph import Graph
from .layers import BatchNorm2d, Conv2d, GlobalAveragePool, Layer, Linear, Pair, Shape


class Builder:
    """Layers from the tensor "input" on; each writes a tensor of its own name."""

    def __init__(self, batch: int, in_channels: int, input_size: int | Pair, num_classes: int) -> None:
        """input_size is H = W, or (H, W). ValueError for a number below 1."""
        self.size = (input_size, input_size) if isinstance(input_size, int) else input_size
        self.input_shape: Shape = (batch, in_channels, *self.size)
        if min(*self.input_shape, num_classes) < 1:
            raise ValueError(f"input {self.input_shape} and {num_classes} classes: every number must be at least 1")
        self.num_classes = num_classes
        self.layers: list[Layer] = []

    def add(self, kind: type[Layer], name: str, *sources: Layer, **fields) -> Layer:
        """Append a layer that reads the outputs of `sources`, or else of the layer before it; return it.

        kind, fields: the layer's class and its own fields. ValueError where its shapes do not fit together.
        """
        before = sources or tuple(self.layers[-1:])
        layer = kind(
            name=name,
            inputs=tuple(source.output for source in before) or ("input",),
            output=name,
            input_shapes=tuple(source.output_shape for source in before) or (self.input_shape,),
            **fields,
        )
        self.layers.append(layer)
        return layer

    def conv(
        self, name: str, norm: str | None, out_channels: int, kernel: int, stride: int = 1, groups: int = 1,
        source: Layer | None = None,
    ) -> Layer:  # fmt: skip
        """A convolution, of `source` or of the layer before it, that keeps the size at stride 1.

        norm: the name of the BatchNorm2d after it; without one the convolution has a bias.
        """
        sources = [source] if source else self.layers[-1:]
        layer = self.add(
            Conv2d,
            name,
            *sources,
            in_channels=(sources[0].output_shape if sources else self.input_shape)[1],
            out_channels=out_channels,
            kernel_size=(kernel, kernel),
            stride=(stride, stride),
            padding=((kernel // 2, kernel // 2), (kernel // 2, kernel // 2)),
            groups=groups,
            weight=f"{name}.weight",
            bias=None if norm else f"{name}.bias",
        )
        if norm is None:
            return layer
        statistics = {field: f"{norm}.{field}" for field in ("weight", "bias", "running_mean", "running_var")}
        return self.add(BatchNorm2d, norm, num_features=out_channels, **statistics)

    def finish_with_classifier(self, classifier: str, name: str) -> Graph:
        """Append global average pooling and a linear layer called `classifier`; return the Graph, <name>-<size>."""
        features = self.add(GlobalAveragePool, "pool").output_shape[1]
        self.add(
            Linear,
            classifier,
            in_features=features,
            out_features=self.num_classes,
            weight=f"{classifier}.weight",
            bias=f"{classifier}.bias",
        )
        height, width = self.size
        return Graph(
            name=f"{name}-{height}" + (f"x{width}" if width != height else ""),
            input="input",
            input_shape=self.input_shape,
            layers=tuple(self.layers),
            output=classifier,
        )
