from common.check import expect
from common.check.trials import Slips, python_random, whole


def floor(layers, kernels, batch, bytes_per_s, flops_per_s, longer=max, weights=1, pictures=1):
    """`weights`, `pictures`: what to count the weights and the FLOPs of a kernel with."""
    us, rest = 0.0, list(layers)
    for count in kernels:
        one, rest = rest[:count], rest[count:]
        moved = batch * (one[0]["in"] + one[-1]["out"]) + weights * sum(layer["weights"] for layer in one)
        us += 1e6 * longer(moved / bytes_per_s, batch * pictures * sum(layer["flops"] for layer in one) / flops_per_s)
    return us


def chain(sizes, weights, flops):
    links = zip(sizes, sizes[1:], weights, flops, strict=False)
    return [{"in": a, "out": b, "weights": w, "flops": f} for a, b, w, f in links]


def longest_at_the_end(layers, kernels, batch, bytes_per_s, flops_per_s):
    memory, arithmetic = (
        floor(layers, kernels, batch, bytes_per_s, flops_per_s, longer=choose)
        for choose in (lambda a, b: a, lambda a, b: b)
    )
    return max(memory, arithmetic)


SLIPS = {
    "bytes move while the card computes: the longer of the two times counts, not their sum": lambda *a: floor(
        *a, longer=lambda memory, arithmetic: memory + arithmetic
    ),
    "the FLOPs may take longer than the bytes": lambda *a: floor(*a, longer=lambda memory, arithmetic: memory),
    "the bytes may take longer than the FLOPs": lambda *a: floor(*a, longer=lambda memory, arithmetic: arithmetic),
    "the longer of the two times counts, not the shorter": lambda *a: floor(*a, longer=min),
    "weights are read, too": lambda *a: floor(*a, weights=0),
    "the weights are the same for all pictures: they are read once for the whole batch": lambda *a: floor(
        *a, weights=a[2]
    ),
    "each picture has its own FLOPs": lambda *a: floor(*a, pictures=1 / a[2]),
    "each kernel has a limit of its own: first the longer of its two times, then the sum": longest_at_the_end,
    "inside a kernel nothing is written but the last layer's output, nor read but the first one's input": (
        lambda layers, kernels, *a: floor(layers, [1] * len(layers), *a)
    ),
    "µs are asked for: 1 s is 1,000,000 of them": lambda *a: floor(*a) / 1e6,
}


def check(fused_floor):
    slips = Slips(SLIPS)

    def compare(layers, kernels, batch, rates, hint):
        want = floor(layers, kernels, batch, *rates)
        what = f"fused_floor({layers}, {kernels}, {batch}, {rates[0]:.3g}, {rates[1]:.3g})"
        arguments = layers, kernels, batch, *rates
        got = fused_floor([dict(layer) for layer in layers], list(kernels), batch, *rates)
        expect(got, want, what=what, hint=slips.hint(got, arguments, hint), rtol=1e-9)

    card = (4e12, 60e12)
    block = chain([4000, 24000, 24000, 4000], [400, 0, 0], [100, 10, 100])
    separate = "a kernel of one layer reads its input and its weights, and writes its output, at bytes_per_s"
    compare(block, [1, 1, 1], 1, card, separate)
    inside = "inside a kernel nothing is written but the last layer's output, and only the first one's input is read"
    compare(block, [3], 1, card, inside)
    read = "weights are read, too"
    compare(chain([4000, 4000], [8_000_000], [10]), [1], 1, card, read)
    every = "a kernel reads the weights of all of its layers"
    compare(chain([4000, 4000, 4000], [0, 8_000_000], [10, 10]), [2], 1, card, every)
    once = "a picture has its own activations and FLOPs; the weights are read once for the whole batch"
    compare(chain([4000, 4000], [8_000_000], [10]), [1], 32, card, once)
    longer = "the FLOPs may take longer than the bytes; and each picture has its own"
    compare(chain([40, 40], [10], [9_000_000]), [1], 8, card, longer)
    mixed = chain([4000, 4000, 4000], [0, 0], [10, 900_000])
    own = "each kernel has a limit of its own: first the longer of the two times, then the sum"
    compare(mixed, [1, 1], 1, card, own)
    compare(mixed, [2], 1, card, "one kernel has all of its layers' FLOPs to compute while it moves its bytes")

    long, sixty = chain([4000] * 61, [800] * 60, [10_000] * 60), [1] * 60
    got = fused_floor([dict(layer) for layer in long], sixty, 1, *card)
    hint = "any number of kernels: the longer of its two times for each, then the sum"
    expect(got, floor(long, sixty, 1, *card), what="fused_floor(60 layers, [1] * 60, 1, …)", hint=hint, rtol=1e-9)

    draw = python_random()
    hint = "per kernel: first input, all weights, last output over bytes_per_s; FLOPs over flops_per_s; the longer one"
    for count in (1, 2, 5, 9, 60) * 8:
        layers = chain(
            [whole(draw) for _ in range(count + 1)],
            [whole(draw, 0) for _ in range(count)],
            [whole(draw, 0) for _ in range(count)],
        )
        kernels, left = [], count
        while left:
            kernels.append(draw.choice([1, 1, min(2, left), draw.randint(1, left)]))
            left -= kernels[-1]
        rates = 10.0 ** draw.uniform(9, 13), 10.0 ** draw.uniform(9, 15.5)
        compare(layers, kernels, whole(draw), rates, hint)
