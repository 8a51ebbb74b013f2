# -- part: steps
"""The plan of a network: which layers share a launch, and where each tensor lies in memory."""

from collections import Counter, namedtuple  # Counter: for fuse
from dataclasses import dataclass, replace  # replace: for dead_code
from math import prod


@dataclass
class Step:
    """Layers that one launch computes."""

    kernel: str  # the name of the kernel: "conv", "pointwise", …
    layers: list  # in order: the kernel's own layer, then those of its epilogue
    workspace: int = 0  # bytes of scratch memory that the launch needs besides its arrays

    @property
    def output(self):
        """The tensor that the launch writes."""
        return self.layers[-1].output

    @property
    def inputs(self):
        """The tensors that the launch reads, without its own; one read twice appears twice."""
        # BEGIN SOLUTION
        # write: the names as a list
        inside = [layer.output for layer in self.layers]
        return [name for layer in self.layers for name in layer.inputs if name not in inside]
        # END SOLUTION


# -- part: memory
Live = namedtuple("Live", "bytes first last")  # in memory from step `first` to step `last`


@dataclass
class Plan:
    """What to launch, and where each tensor lies."""

    steps: list  # of Step, in the order in which they run
    ranges: dict  # tensor → Live
    offsets: dict  # tensor → its first byte in the arena
    size: int  # bytes of the arena


# -- part: dead_code
def dead_code(graph):
    """A new graph, without the layers whose output nothing needs. Do not change `graph`."""
    # BEGIN SOLUTION
    # write: the graph with the layers that are needed, in the same order
    needed, layers = {graph.output}, []
    for layer in reversed(graph.layers):
        if layer.output in needed:
            needed.update(layer.inputs)
            layers.insert(0, layer)
    return replace(graph, layers=layers)
    # END SOLUTION


# -- part: kernel_of
ALONE = {
    "ResidualAdd": "add", "GlobalAveragePool": "pool", "Linear": "gemm",
    "BatchNorm2d": "depthwise", "ReLU": "depthwise", "ReLU6": "depthwise",  # with a 1×1 kernel
}  # fmt: skip


def kernel_of(layer, arrays):
    """The name of the kernel that computes a layer; ValueError if there is none.

    arrays: {layer.output: {role: array}} of all layers, as weights.fold returns them.
    """
    if layer.op == "Conv2d":
        a, (channels, inside, *size) = layer.attributes, arrays[layer.output]["weight"].shape
        (top, bottom), (left, right) = a["padding"]  # a has "dilation" and "groups", too
        regular = size[0] == size[1] and a["stride"][0] == a["stride"][1] and top == left
        plain = size == [1, 1] and a["stride"] == (1, 1) and top + bottom + left + right == 0
        # BEGIN SOLUTION
        # write: return the name of the kernel, if one can compute the layer
        if regular and a["dilation"] == (1, 1):
            if a["groups"] == channels and inside == 1:
                return "depthwise"
            if a["groups"] == 1:
                return "pointwise" if plain else "conv"
        # END SOLUTION
    if layer.op not in ALONE:
        raise ValueError(f"the {layer.op} that writes {layer.output!r}: no kernel computes it")
    return ALONE[layer.op]


# -- part: joins
ACTIVATIONS = ("ReLU", "ReLU6")
EPILOGUES = {  # what a kernel can compute with its sum before it stores it; others: nothing
    "conv": ACTIVATIONS, "depthwise": ACTIVATIONS, "pointwise": ("ResidualAdd", *ACTIVATIONS),
}  # fmt: skip


def joins(layer, step):
    """Whether the step's kernel can compute this layer, too, after the step's other layers."""
    ops = [one.op for one in step.layers]
    # BEGIN SOLUTION
    # write: True if the kernel can compute the layer after `ops`
    closed = any(op in ACTIVATIONS for op in ops)
    return layer.op in EPILOGUES.get(step.kernel, ()) and not closed and layer.op not in ops
    # END SOLUTION


# -- part: fusion
def fuse(graph, arrays):
    """The steps of a graph, in the order of their first layers: each layer is in one of them.

    A layer joins the step whose last output it reads if the step's kernel can compute it, no
    other layer reads that output, and its other input is written before the step runs.
    """
    readers = Counter([graph.output, *(name for one in graph.layers for name in one.inputs)])
    steps, writer = [], {graph.input: -1}  # writer: tensor → its step's number; −1: no step
    for layer in graph.layers:
        # BEGIN SOLUTION
        # write: able: the numbers of the steps that the layer may join
        able = []
        for name in layer.inputs:
            at = writer[name]
            earlier = all(writer[other] < at for other in layer.inputs if other != name)
            if at >= 0 and readers[name] == 1 and earlier and joins(layer, steps[at]):
                able.append(at)
        # END SOLUTION
        if able:
            steps[able[0]].layers.append(layer)
        else:
            steps.append(Step(kernel_of(layer, arrays), [layer]))
        writer[layer.output] = able[0] if able else len(steps) - 1
    return steps


# -- part: live_ranges
def live_ranges(graph, steps):
    """{tensor: Live} of all that must be in memory; `first` and `last` are included.

    A tensor lives from the step that writes it to the last one that reads it. The network's
    input and output belong to the caller: they live until len(steps), after the last step. A
    step's workspace lives during that step, as f"workspace of {step.output}".
    """
    end = len(steps)
    ranges = {graph.input: Live(4 * prod(graph.input_shape), 0, end)}
    # BEGIN SOLUTION
    # write: the live ranges of the outputs and of the workspaces
    for i, step in enumerate(steps):
        for name in step.inputs:
            ranges[name] = ranges[name]._replace(last=max(i, ranges[name].last))
        ranges[step.output] = Live(4 * prod(step.layers[-1].shape), i, i)
        if step.workspace:
            ranges[f"workspace of {step.output}"] = Live(step.workspace, i, i)
    ranges[graph.output] = ranges[graph.output]._replace(last=end)
    # END SOLUTION
    return ranges


# -- part: arena
def arena(ranges, alignment=256):
    """({tensor: offset}, size): where each tensor lies in one piece of memory, in bytes.

    ranges: {tensor: (bytes, first, last)}. Tensors that live at the same step share no byte.
    Offsets are multiples of the alignment.
    """
    offsets, size = {}, 0
    for name in sorted(ranges, key=lambda name: -ranges[name][0]):  # the largest first
        bytes, first, last = ranges[name]
        # BEGIN SOLUTION
        # write: offset, the lowest at which this tensor fits beside those that live with it
        meets = [o for o in offsets if ranges[o][1] <= last and first <= ranges[o][2]]
        offset = 0
        for other in sorted(meets, key=lambda other: offsets[other]):
            if offset + bytes <= offsets[other]:
                break  # it fits into the gap below
            end = offsets[other] + ranges[other][0]
            offset = max(offset, -(-end // alignment) * alignment)
        # END SOLUTION
        offsets[name] = offset
        size = max(size, offset + bytes)
    return offsets, size


# -- part: make_plan
PASSES = []  # functions (graph, steps) → steps, which run after fuse; notebook 6 adds one


def make_plan(graph, arrays):
    """The Plan of a graph. arrays: of all layers, as weights.fold returns them."""
    steps = fuse(graph, arrays)
    for one in PASSES:
        steps = one(graph, steps)
    ranges = live_ranges(graph, steps)
    return Plan(steps, ranges, *arena(ranges))


# -- part: hard_swish
ALONE["HardSwish"] = "hard_swish"


# -- part: own_fusion
FUSED = {  # the kernel of a convolution → the kernel that computes it and a hard-swish
    "conv": "conv_hard_swish", "pointwise": "conv_hard_swish",
    "depthwise": "depthwise_hard_swish",
}  # fmt: skip


def fuse_hard_swish(graph, steps):
    """The steps, each matching pair as one step in the place of its first; `steps` stays.

    Pattern: a step of one convolution, its kernel in FUSED; a step "hard_swish" that reads
    its output. Condition: nothing else reads this output, and it is not the graph's output.
    """
    readers = Counter([graph.output, *(name for step in steps for name in step.inputs)])
    made, writer = [], {}  # writer: tensor → its step's index in made
    for step in steps:
        # BEGIN SOLUTION
        # write: at: the index in made of the convolution that takes this step in, or None
        at = writer.get(step.inputs[0]) if step.kernel == "hard_swish" else None
        if at is not None:
            before = made[at]
            alone = [layer.op for layer in before.layers] == ["Conv2d"]
            if not (alone and before.kernel in FUSED and readers[before.output] == 1):
                at = None
        # END SOLUTION
        if at is None:
            at = len(made)
            made.append(step)
        else:
            made[at] = Step(FUSED[made[at].kernel], [*made[at].layers, *step.layers])
        writer[step.output] = at
    return made


PASSES.append(fuse_hard_swish)
