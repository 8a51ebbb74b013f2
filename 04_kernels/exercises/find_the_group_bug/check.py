import numpy as np

from common.check import expect, launch, require

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
THREADS = 32


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


def origin(y, x, weight, groups):
    """What a wrong result is the right one of, as a hint."""
    per_group = len(weight) // groups
    turned = np.concatenate([weight[g::groups] for g in range(groups)])
    in_turn = reference(x, turned, groups)
    back = np.concatenate([np.arange(g, len(weight), groups) for g in range(groups)])
    if np.allclose(y, in_turn[np.argsort(back)], rtol=1e-4, atol=1e-4):
        return (
            "this is what comes out if output channels take groups in turn, o % groups; a group's outputs lie together"
        )
    if np.allclose(y, reference(x[: len(x) // groups], weight, 1), rtol=1e-4, atol=1e-4):
        return "every output channel has read the first group's input channels"
    if np.allclose(y, reference(x, np.concatenate([weight[:per_group]] * groups), groups), rtol=1e-4, atol=1e-4):
        return "every group has used the first group's weights"
    return (
        "which input channels does output channel o read, and where do its weights begin? Take O = 6, C = 4, 2 groups"
    )


def check(source):
    random = np.random.default_rng()
    for channels, height, width, outs, groups in SHAPES:
        what = f"grouped, C = {channels}, {height} × {width}, O = {outs}, groups = {groups}"
        x = random.standard_normal((channels, height, width)).astype(np.float32) + 0.5
        weight = random.standard_normal((outs, channels // groups, 3, 3)).astype(np.float32) + 0.5
        y = np.full((outs, height, width), np.nan, np.float32)
        hints = {
            "out-of-bounds": "how many weights has an output channel, and how many input channels does it read? The"
            " array in the message says which of the two goes too far"
        }
        grid = (-(-y.size // THREADS),)
        arguments = (x, weight, y, channels, height, width, outs, groups)
        launch(source, "grouped", grid, (THREADS,), arguments, what=what, hints=hints)
        hint = "y holds NaN before the launch: is every output written?"
        require(not np.isnan(y).any(), what=f"{what} leaves NaN in y", hint=hint)
        want = reference(x, weight, groups)
        hint = origin(y, x, weight, groups)
        expect(y, want.astype(np.float32), what=f"{what}: y", hint=hint, rtol=1e-5, atol=1e-5)
