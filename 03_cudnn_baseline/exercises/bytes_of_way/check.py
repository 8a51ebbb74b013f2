import math

from common.check import expect
from common.check.trials import Slips, python_random, whole


def moved(way, x, weight, y, itemsize, bias=None, between=2, conv=(1, 1)):
    """`between` arrays for each border between two graphs, `conv` how often x and the weight are read."""
    elements = math.prod(y)  # what the last graph writes
    for number, nodes in enumerate(way):
        if number:
            elements += between * math.prod(y)
        for node in nodes:
            if node == "conv":
                elements += conv[0] * math.prod(x) + conv[1] * math.prod(weight)
            elif node == "bias":
                elements += y[1] if bias is None else bias(x, y)
            elif node == "residual":
                elements += math.prod(y)
    return itemsize * elements


SLIPS = {
    "a convolution reads its weight as well as x": lambda *a: moved(*a, conv=(1, 0)),
    "a convolution reads x as well as its weight": lambda *a: moved(*a, conv=(0, 1)),
    "there is no graph before the first: it begins with x": lambda way, x, w, y, itemsize: (
        moved(way, x, w, y, itemsize) + itemsize * math.prod(y)
    ),
    "itemsize is the bytes of one number: 2 in fp16": lambda way, x, w, y, itemsize: moved(way, x, w, y, 4),
    "bytes are asked for, not bits": lambda *a: 8 * moved(*a),
    "a bias is one number per channel of y, not one per element": lambda *a: moved(*a, bias=lambda x, y: math.prod(y)),
    "a bias is one number per channel of y, not of x": lambda *a: moved(*a, bias=lambda x, y: x[1]),
    "a bias is read as well, one number per channel of y": lambda *a: moved(*a, bias=lambda x, y: 0),
    "what one graph writes the next one reads: the array between counts twice": lambda *a: moved(*a, between=1),
    "each graph but the first also begins with an array, which the one before wrote": lambda *a: moved(*a, between=0),
}


def check(bytes_of_way):
    draw = python_random()
    slips = Slips(SLIPS)

    def compare(way, hint, itemsize=4, large=False):
        n, c, h, w, o = ((whole(draw) if large else size) for size in draw.sample(range(3, 30), 5))
        x, weight, y = (n, c, h, w), (o, c, 1, 1), (n, o, h, w)
        if large:  # 3×3 kernels, groups, strides: the shapes say what they say
            weight, y = (o, whole(draw), draw.randint(1, 7), 3), (n, o, whole(draw), whole(draw))
        arguments = way, x, weight, y, itemsize
        got = bytes_of_way([list(nodes) for nodes in way], *arguments[1:])
        what = f"bytes_of_way({way}, {x}, {weight}, {y}, {itemsize})"
        expect(got, moved(*arguments), what=what, hint=slips.hint(got, arguments, hint))

    compare([["conv"]], "a convolution reads its weight as well as x, and writes y")
    compare([["conv"]], "fp16 numbers have 2 bytes: multiply by itemsize", itemsize=2)
    in_one = "the nodes of one graph hand their values on in registers, only the last of them is written"
    compare([["conv", "relu6"]], in_one)
    compare([["conv", "bias"]], "a bias is one number per channel of y, which is y[1] numbers")
    compare([["conv", "identity", "bias", "relu6"]], "an identity in a graph moves nothing")
    compare([["conv"], ["relu6"]], "what one graph writes the next one reads: the array between counts twice")
    compare([["conv", "bias"], ["residual"]], "a residual is a whole array, of y's shape")
    compare([["conv"], ["bias"], ["residual", "relu6"]], "three graphs have two arrays between them", itemsize=2)

    nodes = ["conv", "bias", "residual", "relu6", "identity", "sigmoid", "mul"]
    hint = (
        "what each node reads of its own, one y per graph that is written, one y per graph but the first that is read"
    )
    for count in (1, 2, 3, 4, 7, 25):
        for _ in range(5):
            way = [draw.choices(nodes, k=draw.randint(1, 5)) for _ in range(count)]
            compare(way, hint, draw.choice([1, 2, 4, 8, whole(draw)]), large=True)
