from common.check import expect
from common.check.trials import python_random


def reference(steps, sizes, on_gpu):
    places = {"input": {False}}
    copied = []
    for (reads, writes), gpu in zip(steps, on_gpu, strict=True):
        for name in reads:
            if gpu not in places[name]:
                places[name].add(gpu)
                copied.append(name)
        places[writes] = {gpu}
    if False not in places[steps[-1][1]]:
        copied.append(steps[-1][1])
    return len(copied), sum(sizes[name] for name in copied)


def check(copies_of_a_placement):
    draw = python_random()

    def compare(steps, on_gpu, hint):
        # sizes of which no sum is another's
        names = list(dict.fromkeys(["input", *(writes for _, writes in steps)]))
        draw.shuffle(names)
        sizes = {name: 4 * 3**i for i, name in enumerate(names)}
        call = f"copies_of_a_placement({steps}, {sizes}, {on_gpu})"
        want = reference(steps, sizes, on_gpu)
        expect(copies_of_a_placement(steps, sizes, on_gpu), want, what=call, hint=hint)

    line = [(["input"], "a"), (["a"], "b"), (["b"], "c")]
    compare(line, [False] * 3, "all on the CPU, where the input is and the result has to be: it is there already")
    hint = "what the step on the GPU reads goes there, what it writes comes back; bytes are those of the tensors copied"
    compare(line, [False, True, False], hint)
    hint = "what the last step writes has to come back to the CPU, if it is not there"
    compare(line, [False, False, True], hint)
    hint = 'the tensor "input" is on the CPU: a first step on the GPU needs it copied'
    compare(line, [True, False, False], hint)
    hint = "what a step on the GPU writes stays there: the next step on the GPU finds it, without a copy"
    compare(line, [True, True, True], hint)
    fork = [(["input"], "a"), (["a"], "b"), (["a"], "c"), (["b", "c"], "d")]
    hint = "a tensor is copied once, even if several steps read it on the other side: after the first copy it is there"
    compare(fork, [False, True, True, True], hint)
    block = [(["input"], "a"), (["a"], "b"), (["b", "a"], "c")]
    hint = "every tensor that a step reads has to be on its side, a residual from further back as well"
    compare(block, [False, False, True], hint)
    hint = "a copy leaves the tensor where it came from: it is on both sides, and the residual needs no second one"
    compare(block, [False, True, False], hint)

    every = (
        "a tensor is copied when a step reads it that it is not on the side of, and the result if it is on the GPU only"
    )
    for count in (1, 2, 5, 9, 9, 9, 40) * 6:
        steps, names = [], ["input"]
        for i in range(count):
            near = names[-6:] if draw.random() < 0.8 else names
            reads = list(dict.fromkeys([names[-1], *draw.choices(near, k=draw.randint(0, 3))]))[draw.random() < 0.1 :]
            names.append(f"{draw.choice(['t', 'output', 'gpu', 'x.', '0'])}{i}")
            steps.append((reads, names[-1]))
        compare(steps, [draw.random() < draw.choice([0.2, 0.5, 0.8]) for _ in steps], every)
