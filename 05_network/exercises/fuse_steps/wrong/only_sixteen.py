# expect: which tensors does a layer read
from collections import Counter


def fuse_steps(layers, outputs):
    reads = Counter(name for _, inputs, _ in layers for name in inputs)
    reads.update(outputs)
    steps, kinds, written = [], [], {}
    for number, (kind, inputs, output) in enumerate(layers):
        able = []
        for name in inputs:
            at = written.get(name)
            if at is None or name != steps[at][-1] or reads[name] != 1 or number > 20:
                continue
            if kind == "act" and kinds[at] in (["conv"], ["conv", "add"]):
                able.append(at)
            if kind == "add" and kinds[at] == ["conv"]:
                other = inputs[1] if name == inputs[0] else inputs[0]
                if written.get(other, -1) < at:
                    able.append(at)
        step = able[-1] if able else len(steps)
        if not able:
            steps.append([])
            kinds.append([])
        steps[step].append(output)
        kinds[step].append(kind)
        written[output] = step
    return steps
