"""Builder: appends a network's layers one by one, each reading the previous one by default."""

from .graph import Graph
from .layers import BatchNorm2d, Conv2d, GlobalAveragePool, Layer, Linear, Pair, Shape


class Builder:
    """The layers of a network whose input is the tensor "input"; each layer's output tensor has the layer's name."""

    def __init__(self, batch: int, in_channels: int, input_size: int | Pair, num_classes: int) -> None:
        """input_size is H = W, or (H, W). ValueError for a number below 1."""
        self.size = (input_size, input_size) if isinstance(input_size, int) else input_size
        self.input_shape: Shape = (batch, in_channels, *self.size)
        if min(*self.input_shape, num_classes) < 1:
            raise ValueError(f"input {self.input_shape} and {num_classes} classes: every number must be at least 1")
        self.num_classes = num_classes
        self.layers: list[Layer] = []

    def add(self, kind: type[Layer], name: str, *sources: Layer, **fields) -> Layer:
        """Append a layer that reads the outputs of `sources`, by default of the previous layer; return it.

        kind, fields: the layer's class and its own fields. ValueError if the input shapes do not fit the layer.
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
        """Append a convolution of `source`, by default the previous layer, with padding kernel // 2; return the layer.

        norm: the name of a BatchNorm2d to append and return; without one the convolution has a bias.
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
