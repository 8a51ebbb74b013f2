from collections import Counter

from common.check import expect
from common.check.trials import python_random


def steps_of(layers, outputs):
    """The answer, found in another way than solution.py: each layer asks whether the step of one operand can grow."""
    reads = Counter([name for _, inputs, _ in layers for name in inputs] + list(outputs))
    steps = []  # lists of (kind, output)
    for kind, inputs, output in layers:
        ends = {step[-1][1]: i for i, step in enumerate(steps)}
        place = len(steps)
        for name in inputs:
            i = ends.get(name)
            if i is None or reads[name] > 1:
                continue
            grown = [k for k, _ in steps[i]] + [kind]
            others = [other for other in inputs if other != name]
            ready = all(ends.get(other, -1) < i for other in others)
            if ready and grown in (["conv", "act"], ["conv", "add"], ["conv", "add", "act"]):
                place = i
        if place == len(steps):
            steps.append([])
        steps[place].append((kind, output))
    return [[output for _, output in step] for step in steps]


# layers, outputs, the mistake that shows
CASES = (
    ("conv x a, act a b, pool b c", "c", "an activation joins the convolution before it, other layers run alone"),
    ("conv x a, conv a b, act b c", "c", "a convolution is never taken along: each one begins a step"),
    ("pool x a, act a b, conv b c", "c", "only a convolution takes other layers along: an activation after anything"
     " else is a step of its own"),
    ("conv x a, act a b, conv a c", "b c", "two layers read the same tensor. If it is never in memory, what does the"
     " second of them read?"),
    ("conv x a, act a b", "a b", "the caller gets a tensor of `outputs`: it must be in memory, whoever else reads it"),
    ("conv x a, act a b, conv b c, add c b d, act d e", "e", "a convolution takes the addition along and then the"
     " activation: conv, add, act"),
    ("conv x a, act a b, add b x c", "c", "a kernel computes activation(convolution + residual): after the activation"
     " nothing can be added"),
    ("conv x a, act a b, act b c", "c", "a step has one activation, and nothing comes after it"),
    ("conv x a, conv x b, add a b c", "c", "both operands come from convolutions. The addition can only be done when"
     " both are there: it joins the later one"),
    ("conv x a, pool x b, add a b c, act c d", "d", "when the step of the convolution runs, the other operand must be"
     " there: it has to come from an earlier step"),
    ("conv x a, conv x b, act b c, add a c d", "d", "when the step of the convolution runs, the other operand must be"
     " there: it has to come from an earlier step"),
    ("conv x a, conv x b, add b x c, add c a d", "d", "one addition a step: there is room for one residual"),
    ("conv x a, add a a b", "b", "an addition of a tensor to itself reads it twice, so it must be in memory"),
    ("conv x a, pool x b, act a c, add b c d", "d", "the layer that follows a convolution need not be the next in the"
     " list: what counts is which tensor it reads"),
    ("act x a, add a x b", "b", "the network's input comes from no step"),
)  # fmt: skip


def layers_of(text):
    words = [layer.split() for layer in text.split(", ")]
    return [(kind, tuple(inputs), output) for kind, *inputs, output in words]


def network(draw):
    """Random layers; what nobody reads is an output."""
    tensors, layers = ["x"], []
    names = [f"{draw.choice(['t', 'conv', 'act', '/', ''])}{i}" for i in range(60)]
    draw.shuffle(names)
    for i in range(draw.choice([1, 3, 8, 14, 14, 14, 50])):
        kind = draw.choice(["conv", "conv", "add", "act", "act", "pool", "activation", "sum", "conv2"])
        near = tensors[-3:]
        inputs = tuple(draw.choice(near) for _ in range(2 if kind == "add" else 1))
        layers.append((kind, inputs, names[i]))
        tensors.append(names[i])
    read = {name for _, inputs, _ in layers for name in inputs}
    outputs = [name for name in tensors[1:] if name not in read or draw.random() < 0.1]
    draw.shuffle(outputs)
    return layers, tuple(outputs)


def check(fuse_steps):
    def compare(layers, outputs, hint):
        want = steps_of(layers, outputs)
        expect(fuse_steps(list(layers), outputs), want, what=f"fuse_steps({layers}, {outputs})", hint=hint)

    for text, outputs, hint in CASES:
        compare(layers_of(text), tuple(outputs.split()), hint)

    draw = python_random()
    for _ in range(300):
        compare(
            *network(draw), "draw it: which tensors does a layer read that is taken along, and who else reads them?"
        )
