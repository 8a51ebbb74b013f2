"""Small networks written as text, for the rules of a planner: kind, what is read, what is written.

small("conv x a, relu a b, add b x c", "c")     a convolution, a ReLU, an addition of the input
"""

from .. import topology
from ..topology import Graph, Layer

SHAPE = (1, 8, 6, 6)  # of every tensor
KINDS: dict[str, type[Layer]] = {
    "conv": topology.Conv2d, "norm": topology.BatchNorm2d, "relu": topology.ReLU, "add": topology.ResidualAdd,
    "sigmoid": topology.Sigmoid,
}  # fmt: skip


def small(text: str, output: str) -> Graph:
    """The Graph of a text: layers separated by commas, each a kind, the tensors that it reads, the one that it writes.

    The network's input is "x"; layers are named after their outputs. Convolutions are 1×1, without a bias.
    ValueError for an unknown kind, and for what a Graph refuses.
    """
    layers = []
    for line in text.split(","):
        kind, *inputs, out = line.split()
        if kind not in KINDS:
            raise ValueError(f"text: a layer must be one of {', '.join(KINDS)}, got {kind!r}")
        fields: dict = {}
        if kind == "conv":
            fields = {"in_channels": SHAPE[1], "out_channels": SHAPE[1], "kernel_size": (1, 1), "weight": f"{out}.w"}
        elif kind == "norm":
            names = ("weight", "bias", "running_mean", "running_var")
            fields = {"num_features": SHAPE[1], **{name: f"{out}.{name}" for name in names}}
        shapes = (SHAPE,) * len(inputs)
        layers.append(KINDS[kind](name=out, inputs=tuple(inputs), output=out, input_shapes=shapes, **fields))
    return Graph(name="small", input="x", input_shape=SHAPE, layers=tuple(layers), output=output)
