import math

import numpy as np

from common.check import expect


def check(bytes_of_way):
    random = np.random.default_rng()

    def compare(way, hint, itemsize=4):
        n, c, h, w, o = (int(size) for size in random.integers(3, 12, 5))
        c = c if c != o else c + 20  # so that channels of x and of y are not taken for each other
        x, weight, y = (n, c, h, w), (o, c, 1, 1), (n, o, h, w)
        want = 0
        for number, nodes in enumerate(way):
            arrays = [y] if number == 0 else [y, y]  # written, and read from the graph before
            arrays += [x, weight] * nodes.count("conv") + [(o,)] * nodes.count("bias") + [y] * nodes.count("residual")
            want += itemsize * sum(math.prod(shape) for shape in arrays)
        got = bytes_of_way(way, x, weight, y, itemsize)
        expect(got, want, what=f"bytes_of_way({way}, {x}, {weight}, {y}, {itemsize})", hint=hint)

    compare([["conv"]], "a convolution reads its weight as well as x, and writes y")
    compare([["conv"]], "fp16 numbers have 2 bytes: multiply by itemsize", itemsize=2)
    in_one = "the nodes of one graph hand their values on in registers, only the last of them is written"
    compare([["conv", "relu6"]], in_one)
    compare([["conv", "bias"]], "a bias is one number a channel of y, which is y[1] numbers")
    compare([["conv", "identity", "bias", "relu6"]], "an identity in a graph moves nothing")
    compare([["conv"], ["relu6"]], "what one graph writes the next one reads: the array between counts twice")
    compare([["conv", "bias"], ["residual"]], "a residual is a whole array, of y's shape")
    compare([["conv"], ["bias"], ["residual", "relu6"]], "three graphs have two arrays between them", itemsize=2)
