import numpy as np

from common.check import launch
from common.check.kernels import compare, shapes, sprinkled
from common.check.trials import numpy_random

# C, H, W, O, groups: more outputs than inputs and fewer, every channel a group of its own, more groups than a group has
SHAPES = (
    (3, 5, 4, 2, 1),
    (4, 3, 5, 6, 2),
    (9, 5, 7, 3, 3),
    (6, 4, 3, 12, 3),
    (5, 3, 3, 5, 5),
    (4, 6, 5, 8, 4),
    (2, 1, 1, 6, 2),
)
HINTS = {
    "out-of-bounds": "how many weights has an output channel, and how many input channels does it read? The"
    " array in the message says which of the two goes too far"
}


def reference(x, weight, groups):
    """In float64, from the definition: an output channel at a time, with its own group's channels."""
    channels, height, width = x.shape
    padded = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1)))
    y = np.zeros((len(weight), height, width))
    for o, kernel in enumerate(weight.astype(np.float64)):
        group = o // (len(weight) // groups)
        mine = padded[group * (channels // groups) : (group + 1) * (channels // groups)]
        for kh in range(3):
            for kw in range(3):
                y[o] += np.tensordot(kernel[:, kh, kw], mine[:, kh : kh + height, kw : kw + width], 1)
    return y


def mistakes(x, weight, groups):
    """What comes of some mistakes, by the hint that each deserves."""
    if groups == 1:
        return
    per_group = len(weight) // groups
    turned = np.concatenate([weight[g::groups] for g in range(groups)])
    back = np.concatenate([np.arange(g, len(weight), groups) for g in range(groups)])
    in_turn = reference(x, turned, groups)[np.argsort(back)]
    yield in_turn, "this comes out if output channels take groups in turn, o % groups; a group's outputs lie together"
    first = reference(x[: len(x) // groups], weight, 1)
    yield first, "every output channel has read the first group's input channels"
    first = reference(x, np.concatenate([weight[:per_group]] * groups), groups)
    yield first, "every group has used the first group's weights"


def run(source, x, weight, groups, threads, what):
    (channels, height, width), outs = x.shape, len(weight)
    y = np.full((outs, height, width), np.nan, np.float32)
    arguments = (x, weight, y, channels, height, width, outs, groups)
    blocks = -(-y.size // threads)
    launch(source, "grouped", (blocks,), (threads,), arguments, what=what, hints=HINTS, outputs=(y,))
    with np.errstate(invalid="ignore"):
        want, known = reference(x, weight, groups), list(mistakes(x, weight, groups))
    hint = (
        "which input channels does output channel o read, and where do its weights begin? Take O = 6, C = 4, 2 groups"
    )
    if groups == 1:
        hint = "with one group it was right before: which of your lines gives something else there?"
    compare(y, want, what=f"{what}: y", hint=hint, mistakes=known, rtol=1e-5, atol=1e-5)


def check(source):
    random = numpy_random()
    drawn = [  # channels of a group, H, W, outputs of a group, groups
        (a * g, h, w, b * g, g) for a, h, w, b, g in shapes(source, random, (), (6, 12, 12, 6, 6))
    ]  # fmt: skip
    for channels, height, width, outs, groups in (*SHAPES, *drawn):
        what = f"grouped, C = {channels}, {height} × {width}, O = {outs}, groups = {groups}"
        x = random.standard_normal((channels, height, width)).astype(np.float32) + 0.5
        weight = random.standard_normal((outs, channels // groups, 3, 3)).astype(np.float32) + 0.5
        run(source, x, weight, groups, int(random.choice((32, 64, 96, 33))), what)
        if outs in (8, 12):
            run(source, sprinkled(random, x), weight, groups, 128, f"{what}, NaN and infinities in x")
