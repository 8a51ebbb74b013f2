from common.check import expect, require
from common.cudnn import Convolution

WANT = Convolution(
    x=(1, 96, 112, 112),
    w=(96, 1, 3, 3),
    stride=(2, 2),
    padding=(1, 1),
    bias=True,
    bounds=(0.0, 6.0),
    layout="NHWC",
    arithmetic="fp32",
)
HINTS = {
    "x": "the logical shape is (N, C, H, W), whatever the layout: one image of 96 channels",
    "w": "(O, C / groups, rows, columns): in a depthwise convolution every channel is a group of its own",
    "stride": "a pair, (rows, columns): the window moves on by 2 in both",
    "padding": "a pair, (rows, columns): one pixel on each side",
    "dilation": "the pixels of the window are neighbours: leave it out",
    "bias": "the layer has a bias: True or False says whether it is added",
    "residual": "nothing is added but the bias",
    "bounds": "the pair of limits of ReLU6, 0 and 6",
    "layout": "the memory is NHWC",
    "arithmetic": 'arrays and products are to be fp32; "fp32", "tf32" and "fp16" are the values',
}


def check(depthwise_description):
    got = depthwise_description()
    what = "depthwise_description()"
    kind = got if got is None else type(got).__name__  # None: not started yet
    expect(kind, "Convolution", what=f"the type of {what}", hint="give back a cudnn.Convolution")
    for name, hint in HINTS.items():
        value, want = getattr(got, name), getattr(WANT, name)
        value = tuple(value) if isinstance(value, list) else value
        require(value == want, what=f"{what} has {name}={value!r}", hint=hint)
