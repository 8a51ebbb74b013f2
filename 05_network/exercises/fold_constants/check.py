from common.check import expect, require
from common.check.trials import python_random

OPS = {"sum": sum, "largest": lambda arrays: max(arrays, default=0), "seven": lambda arrays: 7}
EVERY = "a node is computed ahead if all of its inputs are known and compute gives a value; else it stays"


def compute(op, arrays):
    return None if op == "random" else OPS[op](arrays)


def reference(nodes, constants, outputs):
    known, left = dict(constants), []
    for op, inputs, output in nodes:
        if set(inputs) <= set(known) and op != "random":
            known[output] = OPS[op]([known[name] for name in inputs])
        else:
            left.append((op, inputs, output))
    read = [*outputs, *(name for _, inputs, _ in left for name in inputs)]
    return left, {name: array for name, array in known.items() if name in read}


def check(fold_constants):
    def compare(nodes, constants, outputs, hint=EVERY):
        asked = []

        def counted(op, arrays):
            asked.append(op)
            return compute(op, arrays)

        call = f"fold_constants({nodes}, {constants}, {outputs}, compute)"
        got = fold_constants(nodes, constants, outputs, counted)
        pair = isinstance(got, tuple) and len(got) == 2
        require(pair, what=f"{call}: expected a pair, got {got!r}", hint="return nodes, constants")
        left, known = got
        want, wanted = reference(nodes, constants, outputs)
        expect([tuple(one) for one in left], want, what=f"{call}: the nodes", hint=hint)
        more = [name for name in known if name not in wanted]
        unread = "some constants that it returns are read by nobody: neither by a node that stays nor by the caller"
        expect(dict(known), wanted, what=f"{call}: the constants", hint=unread if more else hint)
        often = "compute is slow: call it once per node, and not for a node with an input that is not known"
        calls = f"{call}: compute was called {len(asked)} times for {len(nodes)} nodes"
        require(len(asked) <= len(nodes), what=calls, hint=often)

    compare([("sum", ["x", "a"], "y")], {"a": 2}, ["y"], "x is no constant: the node stays")
    compare([("sum", ["a", "b"], "c"), ("sum", ["x", "c"], "y")], {"a": 2, "b": 3}, ["y"], "a and b are known, so c is")
    chain = [("sum", ["a"], "b"), ("sum", ["b", "b"], "c"), ("largest", ["c", "a"], "d"), ("sum", ["x", "d"], "y")]
    compare(chain, {"a": 2}, ["y"], "what a node has computed ahead is known to the nodes after it")
    some = [("sum", ["x", "a"], "b"), ("sum", ["b", "a"], "y")]
    compare(some, {"a": 1}, ["y"], "all inputs of a node have to be known, not only some of them")
    random = [("random", [], "r"), ("sum", ["r", "a"], "y")]
    compare(random, {"a": 1}, ["y"], "compute gives None for what differs from run to run: this node stays")
    compare(
        [("seven", [], "s"), ("sum", ["x", "s"], "y")], {}, ["y"], "a node without inputs, as ONNX's Constant, is known"
    )
    zero = [("sum", ["a", "b"], "c"), ("sum", ["x", "c"], "y")]
    compare(zero, {"a": 2, "b": -2}, ["y"], "0 is a value, too: only None says that there is none")
    compare([("sum", ["a"], "y")], {"a": 4}, ["y"], "the caller reads y: its constant has to be there")
    compare([("sum", ["x"], "y")], {"a": 4}, ["y"], "nobody reads the constant a: it can go")

    draw = python_random()
    for count in (3, 8, 8, 20, 20, 60) * 5:
        names, nodes = ["x", "a", "b", "c"], []
        for i in range(count):
            op = draw.choice(["sum", "sum", "largest", "largest", "seven", "random"])
            inputs = (
                [] if op in ("seven", "random") and draw.random() < 0.7 else draw.choices(names[-5:] + names[:4], k=2)
            )
            names.append(f"{draw.choice(['t', 'x', 'w'])}{i}")
            nodes.append((op, inputs, names[-1]))
        constants = {name: draw.randint(-9, 9) for name in draw.sample(["a", "b", "c"], draw.randint(0, 3))}
        if draw.random() < 0.5:
            constants["unread"] = 5
        compare(nodes, constants, draw.sample(names[4:], draw.randint(1, min(3, count))))
