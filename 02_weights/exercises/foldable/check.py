from common.check import expect
from common.check.trials import Slips, python_random


def pairs_of(nodes, output):
    """Follows every convolution's output to those who read it."""
    found = {}
    for op, _, written in nodes:
        readers = [(reader, made) for reader, inputs, made in nodes for tensor in inputs if tensor == written]
        if op == "Conv2d" and written != output and [reader for reader, _ in readers] == ["BatchNorm2d"]:
            found[readers[0][1]] = written
    return [(found[made], made) for _, _, made in nodes if made in found]


def pairs_unless(forbidden):
    """All batch-norms that read a tensor of a certain origin, unless `forbidden` says no."""

    def slip(nodes, output):
        origin = {written: op for op, _, written in nodes}
        readers = [tensor for _, inputs, _ in nodes for tensor in inputs]
        return [
            (inputs[0], written)
            for op, inputs, written in nodes
            if op == "BatchNorm2d" and not forbidden(origin.get(inputs[0]), inputs[0], readers, output)
        ]

    return slip


SLIPS = {
    "another node reads the convolution's output too, and would get normalised values after folding": pairs_unless(
        lambda op, y, readers, output: op != "Conv2d" or y == output
    ),
    "the network gives back the convolution's output itself: that is a reader as well": pairs_unless(
        lambda op, y, readers, output: op != "Conv2d" or readers.count(y) > 1
    ),
    "what the batch-norm reads has to be a convolution's output": pairs_unless(
        lambda op, y, readers, output: readers.count(y) > 1 or y == output
    ),
    "a pair is (what the convolution writes, what the batch-norm writes), in this order": lambda nodes, output: [
        (z, y) for y, z in pairs_of(nodes, output)
    ],
    "every pair counts, not only the first": lambda nodes, output: pairs_of(nodes, output)[:1],
}


def network(draw):
    names = [f"{draw.choice('zyxabc')}{i}" for i in range(60)]
    draw.shuffle(names)
    tensors, nodes = ["x"], []
    for i in range(draw.choice([1, 3, 8, 20, 50])):
        op = draw.choice(["Conv2d", "Conv2d", "BatchNorm2d", "BatchNorm2d", "ReLU6", "ConvTranspose2d", "Add"])
        near = tensors[-4:]
        nodes.append((op, [draw.choice(near) for _ in range(1 + (op == "Add"))], names[i]))
        tensors.append(names[i])
    return nodes, draw.choice(tensors[-3:])


def check(foldable):
    slips = Slips(SLIPS)

    def compare(nodes, output, want, hint):
        got = foldable(list(nodes), output)
        told = str(nodes) if len(nodes) < 9 else f"{nodes[:8]} and {len(nodes) - 8} more"
        expect(got, want, what=f"foldable({told}, {output!r})", hint=slips.hint(got, (nodes, output), hint))

    chain = [("Conv2d", ["x"], "a"), ("BatchNorm2d", ["a"], "b"), ("ReLU6", ["b"], "c")]
    compare(chain, "c", [("a", "b")], "the batch-norm reads what the convolution writes: the pair (y, z)")
    twice = [*chain, ("Conv2d", ["c"], "d"), ("BatchNorm2d", ["d"], "e")]
    compare(twice, "e", [("a", "b"), ("d", "e")], "every pair, in the order of the nodes")

    dense = [("BatchNorm2d", ["x"], "a"), ("ReLU", ["a"], "b"), ("Conv2d", ["b"], "c")]
    hint = "a batch-norm before a convolution cannot go into it if a ReLU stands in between"
    compare(dense, "c", [], hint)
    after = [("Conv2d", ["x"], "a"), ("ReLU6", ["a"], "b"), ("BatchNorm2d", ["b"], "c")]
    hint = "what the batch-norm reads has to be a convolution's output, here it comes from a ReLU6"
    compare(after, "c", [], hint)

    apart = [
        ("Conv2d", ["x"], "a"),
        ("Conv2d", ["x"], "b"),
        ("BatchNorm2d", ["a"], "c"),
        ("BatchNorm2d", ["b"], "d"),
        ("Add", ["c", "d"], "e"),
    ]
    hint = "tensor names say who reads whom; nodes that stand side by side need not belong together"
    compare(apart, "e", [("a", "c"), ("b", "d")], hint)

    shared = [("Conv2d", ["x"], "a"), ("BatchNorm2d", ["a"], "b"), ("Add", ["a", "b"], "c")]
    hint = "another node reads the convolution's output too, and would get normalised values after folding"
    compare(shared, "c", [], hint)
    early = [("Conv2d", ["x"], "a"), ("Sigmoid", ["a"], "s"), ("BatchNorm2d", ["a"], "b"), ("Mul", ["b", "s"], "c")]
    compare(early, "c", [], hint)
    two = [("Conv2d", ["x"], "a"), ("BatchNorm2d", ["a"], "b"), ("BatchNorm2d", ["a"], "c"), ("Add", ["b", "c"], "d")]
    compare(two, "d", [], hint)
    given_back = [("Conv2d", ["x"], "a"), ("BatchNorm2d", ["a"], "b")]
    hint = "the network gives back the convolution's output itself: that is a reader as well"
    compare(given_back, "a", [], hint)
    # the batch-norm's own output may be read as often as it likes
    branch = [("Conv2d", ["x"], "a"), ("BatchNorm2d", ["a"], "b"), ("ReLU", ["b"], "c"), ("Add", ["b", "c"], "d")]
    hint = "how often the batch-norm's output is read does not matter"
    compare(branch, "d", [("a", "b")], hint)
    crossed = [("Conv2d", ["x"], "p"), ("Conv2d", ["x"], "q"), ("BatchNorm2d", ["q"], "n"), ("BatchNorm2d", ["p"], "m")]
    compare(crossed, "m", [("q", "n"), ("p", "m")], "the order is that of the batch-norms' nodes, not that of names")

    draw = python_random()
    hint = "a pair for each BatchNorm2d that reads a Conv2d's output which nobody else reads, in the order of the nodes"
    for _ in range(100):
        nodes, output = network(draw)
        compare(nodes, output, pairs_of(nodes, output), hint)
