import random

from common.check import expect


def floor(layers, kernels, batch, bytes_per_s, flops_per_s):
    us, rest = 0.0, list(layers)
    for count in kernels:
        one, rest = rest[:count], rest[count:]
        moved = batch * (one[0]["in"] + one[-1]["out"]) + sum(layer["weights"] for layer in one)
        us += 1e6 * max(moved / bytes_per_s, batch * sum(layer["flops"] for layer in one) / flops_per_s)
    return us


def chain(sizes, weights, flops):
    links = zip(sizes, sizes[1:], weights, flops, strict=False)
    return [{"in": a, "out": b, "weights": w, "flops": f} for a, b, w, f in links]


def check(fused_floor):
    def compare(layers, kernels, batch, rates, hint):
        want = floor(layers, kernels, batch, *rates)
        what = f"fused_floor({layers}, {kernels}, {batch}, {rates[0]:.3g}, {rates[1]:.3g})"
        expect(fused_floor(layers, kernels, batch, *rates), want, what=what, hint=hint, rtol=1e-9)

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

    draw = random.Random()
    for _ in range(20):
        count = draw.randint(1, 9)
        layers = chain(
            [draw.randint(1, 10**6) for _ in range(count + 1)],
            [draw.randint(0, 10**6) for _ in range(count)],
            [draw.randint(1, 10**8) for _ in range(count)],
        )
        kernels, left = [], count
        while left:
            kernels.append(draw.randint(1, left))
            left -= kernels[-1]
        rates = draw.uniform(1e11, 5e12), draw.uniform(1e12, 7e14)
        compare(layers, kernels, draw.randint(1, 256), rates, "any chain")
