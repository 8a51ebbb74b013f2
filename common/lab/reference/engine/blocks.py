# -- part: is_block
"""Your engine with one launch per inverted residual, on the kernel block."""

from collections import Counter
from math import prod

import onnx
from engine import engine, graph, plan, weights


def is_block(expand, depthwise, project, readers):
    """Whether one launch of the kernel block can compute these three steps.

    Called for any three steps of which each reads the output of the one before; they need not
    be convolutions. readers: {tensor: how many steps read it}; the network's output counts as
    read once more.
    """
    kernels = [step.kernel for step in (expand, depthwise, project)]
    ops = [[layer.op for layer in step.layers] for step in (expand, depthwise, project)]
    window = depthwise.layers[0]  # of a convolution: attributes has "stride" and "padding"
    # BEGIN SOLUTION
    # write: True if kernels, ops, window, readers and the residual are those of a block
    wide = ["Conv2d", "ReLU6"]
    if kernels != ["pointwise", "depthwise", "pointwise"] or ops[:2] != [wide, wide]:
        return False
    square = window.macs == 9 * prod(window.shape)  # a window of 3×3
    fits = square and window.attributes["padding"] == ((1, 1), (1, 1))
    fits = fits and window.attributes["stride"] in ((1, 1), (2, 2))
    alone = readers[expand.output] == readers[depthwise.output] == 1
    plain = ops[2] == ["Conv2d"]
    residual = ops[2] == ["Conv2d", "ResidualAdd"] and project.inputs[1] == expand.inputs[0]
    return fits and alone and (plain or residual)
    # END SOLUTION


# -- part: fuse_blocks
def fuse_blocks(net, steps):
    """The steps, each inverted residual as one, in the place of its project; `steps` stays."""
    readers = Counter([net.output, *(name for step in steps for name in step.inputs)])
    writer = {step.output: step for step in steps}
    made = []
    for step in steps:
        before = writer.get(step.inputs[0])  # None for the network's input
        first = writer.get(before.inputs[0]) if before else None
        if before and first and is_block(first, before, step, readers):
            made = [one for one in made if one is not first and one is not before]
            step = plan.Step("block", [*first.layers, *before.layers, *step.layers])
        made.append(step)
    return made


# -- part: prepare
def of_block(step, shapes, tensors, *arrays):
    """The arguments of block. arrays: weight, bias of expand, of depthwise, of project."""
    x, out = step.inputs[0], step.output
    (images, inside, *size), (_, outputs, *out_size) = shapes[x], shapes[out]
    _, window, _ = (layer for layer in step.layers if layer.op == "Conv2d")
    channels = inside, window.shape[1], outputs
    last = window.attributes["stride"][0], len(step.inputs) - 1  # stride, residual
    return tensors[x], *arrays, tensors[out], images, *channels, *size, *out_size, *last


def prepare(own, shape):
    """As engine.prepare, for a plan with blocks, whose weights and biases are six arrays."""
    net = plan.dead_code(graph.read(own.model))
    net, arrays = weights.fold(net, weights.extract(own.model, net))
    plan.PASSES.append(fuse_blocks)
    engine.ARGUMENTS["block"] = of_block
    try:
        for step in plan.make_plan(net, arrays).steps:
            if step.kernel == "block" and step.layers[0].output not in own.weights:
                convs = [layer for layer in step.layers if layer.op == "Conv2d"]
                pairs = [engine.parameters(conv, arrays[conv.output]) for conv in convs]
                own.weights[convs[0].output] = [array for pair in pairs for array in pair]
        return engine.prepare(own, shape)
    finally:
        plan.PASSES.remove(fuse_blocks)


# -- part: run
def bind(model):
    """The Engine of an ONNX model, as engine.bind, with blocks."""
    own = engine.Engine(model if isinstance(model, onnx.ModelProto) else onnx.load(model))
    shape = tuple(graph.read(own.model).input_shape)
    own.programs[shape] = prepare(own, shape)
    return own


def run(own, x):
    """The logits (N, classes) of images x, as engine.run, with blocks."""
    if x.shape not in own.programs:
        own.programs[x.shape] = prepare(own, x.shape)
    return engine.run(own, x)  # which finds this program
