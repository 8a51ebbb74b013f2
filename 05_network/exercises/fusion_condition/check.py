from common.check import ToDo, Wrong, require
from common.check.trials import numpy_random
from common.topology import Conv2d

PLAIN = {
    "groups": 1, "in_channels": 6, "out_channels": 8, "kernel_size": (3, 3), "stride": (1, 1), "dilation": (1, 1),
    "padding": ((1, 1), (1, 1)), "bias": "b",
}  # fmt: skip
DEPTHWISE = {"groups": 6, "out_channels": 6}
# what differs from PLAIN, and why no kernel computes it
REFUSED = (
    ({"dilation": (2, 2), "padding": ((2, 2), (2, 2))}, "the kernels know no dilation"),
    ({"dilation": (1, 2)}, "the kernels know no dilation, in neither direction"),
    ({**DEPTHWISE, "dilation": (2, 2)}, "the depthwise kernel knows no dilation either"),
    ({"groups": 2}, "2 groups of 3 channels: neither one group nor one per channel"),
    ({"groups": 6, "out_channels": 12}, "one group per input, two outputs per group: not what depthwise computes"),
    ({"kernel_size": (1, 3)}, "the kernels' windows are square"),
    ({"stride": (2, 1)}, "the kernels have one stride for both directions"),
    ({"padding": ((1, 1), (0, 0))}, "the kernels have one padding, of the top and the left"),
    ({**DEPTHWISE, "padding": ((0, 1), (1, 1))}, "the kernels have one padding, of the top and the left"),
    ({"bias": None}, "the kernels add a bias: without one they get a null pointer"),
)  # fmt: skip
TAKEN = (
    ({}, "a plain 3×3 convolution"),
    (DEPTHWISE, "a depthwise one"),
    ({"kernel_size": (1, 1), "padding": ((0, 0), (0, 0))}, "a 1×1 convolution: conv computes it, too"),
    ({"kernel_size": (5, 5), "stride": (2, 2), "padding": ((2, 2), (2, 2))}, "5×5 of stride 2"),
    ({"groups": 1, "in_channels": 1, "out_channels": 1}, "one channel"),
    ({"padding": ((1, 2), (1, 0))}, "bottom and right follow from the output's size: they may differ"),
)


def described(conv, dtype, layout):
    """The arguments in words: what differs from a plain convolution."""
    changed = ", ".join(f"{name} = {getattr(conv, name)!r}" for name in PLAIN if getattr(conv, name) != PLAIN[name])
    return f"fusion_condition of a convolution with {changed or 'nothing special'}, {dtype}, {layout}"


def made(changes):
    fields = PLAIN | changes
    shape = (1, fields["in_channels"], 17, 19)
    return Conv2d(name="c", inputs=("x",), input_shapes=(shape,), output="y", weight="w", **fields)


def judged(fusion_condition, conv, dtype, layout, able, why):
    got, what = fusion_condition(conv, dtype, layout), described(conv, dtype, layout)
    if got is None:
        raise ToDo(f"{what} gives nothing back yet")
    if able:
        require(got is True, what=f"{what}: {got!r}, expected True", hint=f"your kernels compute it: {why}")
        return
    if got is True:
        raise Wrong(f"{what}: True, expected a reason", why)
    require(isinstance(got, str) and bool(got.strip()), what=f"{what}: {got!r}, expected a text", hint=why)


def check(fusion_condition):
    for changes, why in TAKEN:
        judged(fusion_condition, made(changes), "fp32", "NCHW", True, why)
    for changes, why in REFUSED:
        judged(fusion_condition, made(changes), "fp32", "NCHW", False, why)
    for dtype, layout in (("fp16", "NCHW"), ("fp32", "NHWC"), ("fp16", "NHWC")):
        for changes in ({}, DEPTHWISE):
            why = "your kernels read float32" if dtype == "fp16" else "your kernels read NCHW"
            judged(fusion_condition, made(changes), dtype, layout, False, why)
    random = numpy_random()
    for _ in range(30):
        k, s, p, channels = (int(n) for n in random.integers((1, 1, 0, 2), (6, 4, 3, 9)))
        changes = {
            "in_channels": channels, "kernel_size": (k, k), "stride": (s, s),
            "padding": ((p, int(random.integers(0, 3))), (p, int(random.integers(0, 3)))),
        }  # fmt: skip
        if random.integers(2):
            changes |= {"groups": channels, "out_channels": channels}
        judged(fusion_condition, made(changes), "fp32", "NCHW", True, "square, no dilation, with a bias")
