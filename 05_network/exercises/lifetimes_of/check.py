from common.check import expect
from common.check.trials import python_random


def lives_of(steps, input, output):
    names = {input, *(name for _, writes in steps for name in writes)}
    found = {}
    for name in names:
        touched = [i for i, (reads, writes) in enumerate(steps) if name in (*reads, *writes)]
        kept = [len(steps)] if name in (input, output) else []
        found[name] = (0 if name == input else touched[0], max(touched + kept))
    return found


# steps, input, output, which tensors matter first, hint
CASES = (
    ("x>a a>b b>y", "y", "a is written by one step and read by the next: it must be there at both"),
    ("x>a a>b ab>c c>y", "y", "a has two readers: it must be there until the last one"),
    ("x>a a>b b>c ac>d d>y", "y", "a residual is read long after it was written: its life ends with its last reader"),
    ("x>ab a>y", "y", "b is read by nobody; it must be there at the step that writes it"),
    ("x>a a>b b>y y>z", "y", "the caller reads the output after the last step: it lives until len(steps)"),
    ("x>ab ab>y", "y", "a step may write several tensors, and read several"),
)


def steps_of(text):
    pairs = [step.split(">") for step in text.split()]
    return [(tuple(reads), tuple(writes)) for reads, writes in pairs]


def network(draw):
    tensors, steps = ["x"], []
    for i in range(draw.choice([1, 2, 6, 12, 12, 60])):
        writes = [f"{draw.choice('tzA')}{i}"] + ([f"u{i}", f"{i}"] if draw.random() < 0.2 else [])
        near = tensors[-4:] if draw.random() < 0.9 else tensors
        steps.append((tuple(sorted(set(draw.choices(near, k=draw.randint(1, 4))))), tuple(writes)))
        tensors += writes
    return steps, "x", draw.choice(tensors[1:])


def check(lifetimes_of):
    def compare(steps, input, output, hint):
        what = f"lifetimes_of({steps}, {input!r}, {output!r})"
        got, want = lifetimes_of(steps, input, output), lives_of(steps, input, output)
        if isinstance(got, dict):  # the ends last: they have hints of their own
            inner = {name: life for name, life in want.items() if name not in (input, output)}
            expect({name: got[name] for name in inner if name in got}, inner, what=what, hint=hint)
            end = "the caller writes the input once, for many runs: it keeps its place until the end, len(steps)"
            expect(got.get(input, "nothing"), want[input], what=f"{what}[{input!r}]", hint=end)
            end = "the caller reads the output after the last step: it lives until len(steps)"
            expect(got.get(output, "nothing"), want[output], what=f"{what}[{output!r}]", hint=end)
        expect(got, want, what=what, hint="a pair for each tensor, by its name")

    for text, output, hint in CASES:
        compare(steps_of(text), "x", output, hint)
    draw = python_random()
    for _ in range(100):
        compare(*network(draw), "from the step that writes it to the last one that reads it")
