import numpy as np

from common.check import expect


def check(readers_of):
    random = np.random.default_rng()

    def compare(hint, *arguments):
        pixel, outputs, kernel, stride, pad, dilation = arguments
        pairs = [(o, k) for k in range(kernel) for o in range(outputs) if o * stride - pad + k * dilation == pixel]
        what = "readers_of({}, outputs={}, kernel={}, stride={}, pad={}, dilation={})".format(*arguments)
        expect(readers_of(*arguments), pairs, what=what, hint=hint)

    compare("as the tap goes up by one, the output that reads this pixel goes down by one", 3, 7, 3, 1, 1, 1)
    compare("with stride 2 an even pixel is read by the middle tap alone: 2·o has to be even", 4, 7, 3, 2, 1, 1)
    compare("with stride 2 an odd pixel is read by the outer taps of two outputs", 5, 7, 3, 2, 1, 1)
    compare("output -1 is not there", 0, 7, 3, 1, 1, 1)
    compare("the last output is outputs - 1", 6, 7, 3, 1, 1, 1)
    compare("the padding moves every output's window to the left", 3, 7, 3, 1, 0, 1)
    compare("a tap is dilation pixels further than the one before", 9, 14, 3, 1, 2, 2)
    compare("(pixel + pad - k·dilation) / stride must come out even, and is not to be rounded", 6, 9, 5, 3, 2, 2)
    compare("a pixel may have no reader at all", 3, 3, 2, 4, 0, 1)
    for _ in range(40):
        kernel, stride, dilation = (int(v) for v in random.integers(1, [8, 5, 4]))
        pixel, outputs, pad = (int(v) for v in random.integers([0, 1, 0], [20, 12, 6]))
        hint = "output o reads pixel o·stride - pad + k·dilation: solve for o, for each tap k"
        compare(hint, pixel, outputs, kernel, stride, pad, dilation)
