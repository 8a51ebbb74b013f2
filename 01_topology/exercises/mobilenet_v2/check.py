"""Builds the network with a class in the place of InvertedResidual that records its arguments."""

import inspect

from common import topology
from common.check import expect, require
from common.topology import module

WIDTHS = (1.0, 0.35, 1.4)


def scaled(c, width):
    return topology.make_divisible(c * width)


def built(width, *, outs=scaled, strides=lambda i, n, s: s if i == 0 else 1, reads=None, once=False):
    """(in_channels, out_channels, stride, t) of each block; each keyword makes a slip."""
    before, blocks = scaled(32, width), []
    for t, c, n, s in topology.TABLE:
        out = outs(c, width)
        for i in range(1 if once else n):
            channels = reads(before, out) if reads else before if i == 0 else out
            blocks.append((channels, out, strides(i, n, s), t))
        before = out
    return blocks


SLIPS = {
    "a row stands for n blocks": lambda width: built(width, once=True),
    "only the first block of a row has stride s, the others have stride 1": lambda width: built(
        width, strides=lambda i, n, s: s
    ),
    "the first block of a row has stride s, not the last": lambda width: built(
        width, strides=lambda i, n, s: s if i == n - 1 else 1
    ),
    "a block reads what the block before it writes: update channels after every block, not after every row": (
        lambda width: built(width, reads=lambda before, out: before)
    ),
    "a block reads what the block before it writes: update channels": lambda width: built(
        width, reads=lambda before, out: scaled(32, width)
    ),
    "make_divisible(c * width) channels: the width multiplier is missing": lambda width: built(
        width, outs=lambda c, width: c
    ),
    "make_divisible(c * width) channels: a product is no multiple of 8": lambda width: built(
        width, outs=lambda c, width: int(c * width)
    ),
    "the first block of a row reads what the row before writes": lambda width: built(
        width, reads=lambda before, out: out
    ),
}


def check(MobileNetV2):
    import torch
    from torch import nn

    torch.set_num_threads(1)  # a child process: the parent's threads are not in it
    blocks = []

    class Recorded(nn.Module):
        def __init__(self, in_channels, out_channels, stride, t):
            super().__init__()
            blocks.append((in_channels, out_channels, stride, t))

    def features(width):
        blocks.clear()
        with torch.device("meta"):
            return MobileNetV2(width).features

    given = inspect.unwrap(MobileNetV2.__init__).__globals__
    course = {"InvertedResidual": Recorded, "ConvReLU6": module.ConvReLU6, "TABLE": list(topology.TABLE),
              "make_divisible": topology.make_divisible}  # fmt: skip
    before = {name: given[name] for name in course if name in given}
    given.update(course)
    try:
        for width in WIDTHS:
            sequence = features(width)
            if not blocks:
                require(False, what="no InvertedResidual is made", hint="one per block, for all rows of TABLE")
            right = built(width)
            hint = next((hint for hint, slip in SLIPS.items() if blocks == slip(width)), "in the order of TABLE")
            for number, (got, wanted) in enumerate(zip(blocks, right, strict=False), 1):
                for name, one, want in zip(("in_channels", "out_channels", "stride", "t"), got, wanted, strict=True):
                    expect(one, want, what=f"{name} of block {number} at width {width}", hint=hint)
            expect(len(blocks), len(right), what=f"the number of blocks at width {width}", hint=hint)
            kinds = [type(layer).__name__ for layer in sequence]
            require(kinds == ["ConvReLU6", *["Recorded"] * len(right), "ConvReLU6"],
                    what=f"self.features holds {len(kinds)} layers, expected stem, {len(right)} blocks, head",
                    hint="features.append(InvertedResidual(…)), once per block")  # fmt: skip
            head = sequence[-1][0].in_channels
            expect(head, right[-1][1], what=f"channels that the head reads at width {width}",
                   hint="after the loop, channels is what the last block writes")  # fmt: skip
    finally:
        for name in course:
            given.pop(name)
        given.update(before)
