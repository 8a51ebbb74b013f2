"""Follows both inputs of each addition back to the network's input, in random networks with branches."""

from types import SimpleNamespace

from common.check import expect
from common.check.trials import Slips, python_random

OPS = ("Conv2d", "ReLU6", "BatchNorm2d", "Concat")


class Sketch:
    """A network in the making: `last` is the tensor that the next layer reads."""

    def __init__(self):
        self.layers, self.draw, self.used = [], python_random(), set()
        self.last = self.name()

    def name(self):
        """A name that says nothing, and stands in no order."""
        while (name := f"{self.draw.choice('abcdefgh')}{self.draw.randrange(1000)}") in self.used:
            pass
        self.used.add(name)
        return name

    def layer(self, op, *inputs):
        self.last = self.name()
        self.layers.append(SimpleNamespace(op=op, inputs=list(inputs), output=self.last))
        return self.last

    def chain(self, length=1, source=None):
        tensor = source or self.last
        for _ in range(length):
            tensor = self.layer(self.draw.choice(OPS[:3]), tensor)
        self.last = tensor
        return tensor

    def add(self, first, second):
        return self.layer("ResidualAdd", *self.draw.sample([first, second], 2))

    def residual(self, length=3):
        fork = self.last
        self.add(fork, self.chain(length))

    def nested(self):
        """A residual within a branch of another one."""
        fork = self.chain()
        self.chain()
        self.residual(2)
        self.add(fork, self.chain())

    def shortcut(self):
        """Layers on both branches, in turns."""
        fork = self.last
        left, right = self.chain(1, fork), self.chain(1, fork)
        left = self.chain(self.draw.randint(1, 2), left)
        self.add(left, self.chain(self.draw.randint(0, 1), right))

    def unread(self):
        """Layers within a branch whose output nobody reads."""
        fork = self.last
        inside = self.chain()
        self.chain(2, fork)
        self.add(fork, self.chain(2, inside))

    def itself(self):
        """A sum of one tensor with itself."""
        tensor = self.chain()
        self.add(tensor, tensor)

    def concat(self):
        """A branch that reads two earlier tensors at once."""
        fork = self.last
        first, second = self.chain(1, fork), self.chain(2, fork)
        self.add(self.layer("Concat", first, second, first), second)


def below(layers):
    """{tensor: the outputs of the layers that it depends on}, followed back from each tensor."""
    writer = {layer.output: layer for layer in layers}
    found = {}
    for layer in layers:
        seen, waiting = set(), [layer.output]
        while waiting:
            name = waiting.pop()
            if name in writer and name not in seen:
                seen.add(name)
                waiting += writer[name].inputs
        found[layer.output] = seen
    return found


def branches(layers, choose=set.symmetric_difference, needs=None):
    needs = needs or below(layers)
    pairs = {one.output: [needs.get(n, set()) for n in one.inputs] for one in layers if one.op == "ResidualAdd"}
    return {add: [one.output for one in layers if one.output in choose(*pair)] for add, pair in pairs.items()}


def one_step(layers):
    return branches(layers, needs={one.output: {one.output, *one.inputs} for one in layers})


def by_place(layers):
    """All layers of the list between the Add and the earlier one of its inputs."""
    place = {layer.output: i for i, layer in enumerate(layers)}
    found = {}
    for i, layer in enumerate(layers):
        if layer.op == "ResidualAdd":
            first = min(place.get(name, -1) for name in layer.inputs)
            found[layer.output] = [one.output for one in layers[first + 1 : i]]
    return found


def fork_included(layers):
    writers, found = {layer.output for layer in layers}, branches(layers)
    for layer in layers:
        if layer.op == "ResidualAdd":
            chosen = {*found[layer.output], *(name for name in layer.inputs if name in writers)}
            found[layer.output] = [one.output for one in layers if one.output in chosen]
    return found


SLIPS = {
    "layers before the fork are on no branch: both inputs depend on them": lambda layers: branches(layers, set.union),
    "asked for are the layers that one input alone depends on": lambda layers: branches(layers, set.intersection),
    "either input may be the one with the longer branch, and both may have layers of their own": (
        lambda layers: branches(layers, lambda first, second: second - first)
    ),
    "follow the inputs further back than to the layer that writes them": one_step,
    "the list holds layers in between that neither input depends on, or both": by_place,
    "the fork is on no branch: both inputs depend on the layer that writes it": fork_included,
    "the Add itself is on no branch": lambda layers: {add: [*names, add] for add, names in branches(layers).items()},
}


def check(branch_layers):
    slips = Slips(SLIPS)

    def compare(what, hint, *steps):
        sketch = Sketch()
        for step in steps:
            step(sketch)
        layers = sketch.layers
        got = branch_layers([SimpleNamespace(**vars(layer)) for layer in layers])
        shown = ", ".join(f"{one.output} = {one.op}({', '.join(one.inputs)})" for one in layers)
        shown = shown if len(shown) < 500 else f"{shown[:500]}…"
        hint = slips.hint(got, (layers,), hint)
        expect(got, branches(layers), what=f"the dict for {what} ({shown})", hint=hint)

    compare("no layers at all", "without an addition the dict is empty")
    compare("a chain", "without an addition the dict is empty", Sketch.chain, Sketch.chain)
    hint = "the layers of the longer branch, from the fork to the Add, without both"
    compare("a residual after two layers", hint, lambda s: s.chain(2), Sketch.residual)
    compare("a residual at the network's input", "the network's input is no layer", Sketch.residual)
    hint = "both inputs may have layers of their own"
    compare("layers on both branches", hint, Sketch.chain, Sketch.shortcut)
    hint = "a layer whose output neither input depends on is on no branch"
    compare("layers that nobody reads", hint, Sketch.chain, Sketch.unread)
    hint = "a residual within a branch belongs to the branch, with all its layers"
    compare("a residual within a residual", hint, Sketch.nested)
    compare("a sum of a tensor with itself", "both inputs depend on the same layers: no layer is left", Sketch.itself)
    compare(
        "a Concat on a branch", "a layer may read several tensors; follow each of them", Sketch.chain, Sketch.concat
    )

    draw = python_random()
    steps = [Sketch.chain, Sketch.residual, Sketch.nested, Sketch.shortcut, Sketch.unread, Sketch.itself, Sketch.concat]
    for count in (2, 3, 5, 8, 8, 8, 40):
        hint = "the layers that exactly one of the Add's inputs depends on, in the order of the list"
        compare("a random network", hint, *draw.choices(steps, k=count))
