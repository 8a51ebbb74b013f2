from common.check import expect
from common.check.trials import python_random


def check(shared_weight):
    def compare(nodes, initializers, want, hint):
        got = shared_weight([(op, list(inputs), output) for op, inputs, output in nodes], set(initializers))
        shown = "; ".join(f"{op}({', '.join(inputs)}) → {output}" for op, inputs, output in nodes[:6])
        what = f"shared_weight of {shown}{'; …' * (len(nodes) > 6)}"
        expect(got, want, what=what, hint=hint)

    conv = "Conv"
    none = [(conv, ["x", "w"], "y"), (conv, ["y", "v"], "z")]
    compare(none, ["w", "v"], {}, "leave out an array that one layer reads")
    two = [(conv, ["x", "w", "b"], "y"), (conv, ["y", "w", "c"], "z")]
    compare(two, ["w", "b", "c"], {"w": ["y", "z"]}, "list the outputs of all layers that read an array")
    skip = [(conv, ["x", "w"], "y"), ("Relu", ["y"], "z"), ("Add", ["y", "z"], "s")]
    compare(skip, ["w"], {}, "y is an activation: only names of the file's arrays count")

    alone = [("Identity", ["b"], "c"), (conv, ["x", "w", "c"], "y")]
    compare(alone, ["w", "b"], {}, "an Identity is no layer: it does not count as a reader")
    named = [("Identity", ["b"], "c"), (conv, ["x", "w", "b"], "y"), (conv, ["y", "v", "c"], "z")]
    hint = "an Identity gives an array a further name: a layer that reads this name reads the array"
    compare(named, ["w", "v", "b"], {"b": ["y", "z"]}, hint)
    chain = [("Identity", ["b"], "c"), ("Identity", ["c"], "d"), *two, (conv, ["z", "v", "d"], "q")]
    chain = [(op, ["b" if name == "c" and op == conv else name for name in ins], out) for op, ins, out in chain]
    hint = "an Identity may read what another Identity wrote"
    compare(chain, ["w", "v", "b"], {"w": ["y", "z"], "b": ["y", "z", "q"]}, hint)
    norm = [("Identity", ["zero"], "mean"), ("BatchNormalization", ["x", "one", "zero", "mean", "one"], "y")]
    compare(norm, ["zero", "one"], {}, "one layer that reads an array twice, under any names, counts once")
    passed = [("Identity", ["x"], "y"), (conv, ["x", "w"], "a"), (conv, ["y", "v"], "b")]
    compare(passed, ["w", "v"], {}, "an Identity of an activation is an activation")
    compare([], ["w"], {}, "a file may hold arrays that no layer reads")

    draw = python_random()
    hint = "follow every Identity to the array in the file, and count each layer once"
    for count in (3, 8, 40):
        for _ in range(4):
            arrays = [f"{draw.choice(['w', 'onnx::Conv_', '/a', ''])}{i}" for i in range(max(2, count // 3))]
            stored, nodes, readers, activations = {a: a for a in arrays}, [], {}, ["x"]
            for i in range(count):
                output = f"t{draw.randrange(10**6)}_{i}"
                names = draw.choices(list(stored), k=draw.choice([1, 2, 4]))
                if draw.random() < 0.3:
                    source = draw.choice([*names, draw.choice(activations)])
                    nodes.append(("Identity", [source], output))
                    if source in stored:
                        stored[output] = stored[source]
                    else:
                        activations.append(output)
                    continue
                nodes.append((draw.choice(["Conv", "BatchNormalization", "Add"]), [activations[-1], *names], output))
                activations.append(output)
                for name in dict.fromkeys(stored[one] for one in names):
                    readers.setdefault(name, []).append(output)
            draw.shuffle(arrays)
            want = {name: outputs for name, outputs in readers.items() if len(outputs) > 1}
            compare(nodes, arrays, want, hint)
