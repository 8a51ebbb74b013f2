from common.check import expect


def check(foldable):
    def compare(nodes, output, want, hint):
        what = f"foldable of {', '.join(op for op, _, _ in nodes)}"
        expect(foldable(nodes, output), want, what=what, hint=hint)

    chain = [("Conv", ["x"], "a"), ("BatchNorm", ["a"], "b"), ("ReLU6", ["b"], "c")]
    compare(chain, "c", [("a", "b")], "the batch-norm reads what the convolution writes: the pair (y, z)")
    twice = [*chain, ("Conv", ["c"], "d"), ("BatchNorm", ["d"], "e")]
    compare(twice, "e", [("a", "b"), ("d", "e")], "every pair, in the order of the nodes")

    dense = [("BatchNorm", ["x"], "a"), ("ReLU", ["a"], "b"), ("Conv", ["b"], "c")]
    hint = "DenseNet's order: a batch-norm before a convolution cannot go into it, with a ReLU in between"
    compare(dense, "c", [], hint)
    after = [("Conv", ["x"], "a"), ("ReLU6", ["a"], "b"), ("BatchNorm", ["b"], "c")]
    hint = "what the batch-norm reads has to be a convolution's output, here it comes from a ReLU6"
    compare(after, "c", [], hint)

    apart = [
        ("Conv", ["x"], "a"),
        ("Conv", ["x"], "b"),
        ("BatchNorm", ["a"], "c"),
        ("BatchNorm", ["b"], "d"),
        ("Add", ["c", "d"], "e"),
    ]
    hint = "tensor names say who reads whom; nodes that stand side by side need not belong together"
    compare(apart, "e", [("a", "c"), ("b", "d")], hint)

    shared = [("Conv", ["x"], "a"), ("BatchNorm", ["a"], "b"), ("Add", ["a", "b"], "c")]
    hint = "another node reads the convolution's output too, and would get normalised values after folding"
    compare(shared, "c", [], hint)
    early = [
        ("Conv", ["x"], "a"),
        ("Sigmoid", ["a"], "s"),
        ("BatchNorm", ["a"], "b"),
        ("Mul", ["b", "s"], "c"),
    ]
    compare(early, "c", [], hint)
    two = [
        ("Conv", ["x"], "a"),
        ("BatchNorm", ["a"], "b"),
        ("BatchNorm", ["a"], "c"),
        ("Add", ["b", "c"], "d"),
    ]
    compare(two, "d", [], hint)
    given_back = [("Conv", ["x"], "a"), ("BatchNorm", ["a"], "b")]
    hint = "the network gives back the convolution's output itself: that is a reader as well"
    compare(given_back, "a", [], hint)
    # the batch-norm's own output may be read as often as it likes
    branch = [("Conv", ["x"], "a"), ("BatchNorm", ["a"], "b"), ("ReLU", ["b"], "c"), ("Add", ["b", "c"], "d")]
    hint = "how often the batch-norm's output is read does not matter"
    compare(branch, "d", [("a", "b")], hint)
