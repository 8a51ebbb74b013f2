"""Builds blocks without memory for their numbers, runs them as they are and with a known function in conv's place."""

from common.check import Wrong, require
from common.check.trials import python_random

EXPECTED = ["ConvReLU6", "ConvReLU6", "Conv2d", "BatchNorm2d"]


def named(layer):
    return type(layer).__name__


def check(InvertedResidual):
    import torch
    from torch import nn

    torch.set_num_threads(1)  # a child process: the parent's threads are not in it

    def built(i, o, stride, t):
        with torch.device("meta"):
            block = InvertedResidual(i, o, stride, t)
        what = f"InvertedResidual({i}, {o}, stride={stride}, t={t})"
        for name in ("conv", "has_skip"):
            require(hasattr(block, name), what=f"{what} has no self.{name}", hint=f"assign self.{name} in __init__")
        require(isinstance(block.conv, nn.Sequential), what=f"{what}.conv is no nn.Sequential",
                hint="nn.Sequential(*layers)")  # fmt: skip
        return block, what

    def square(pair):
        """A number for a pair of equal ones."""
        return pair[0] if len(set(pair)) == 1 else pair

    def padding(layer):
        """A convolution's padding as a number; it may be given in words."""
        sizes = zip(layer.dilation, layer.kernel_size, strict=True)
        words = {"valid": (0, 0), "same": tuple(dilation * (kernel - 1) / 2 for dilation, kernel in sizes)}
        return square(words.get(layer.padding, layer.padding))

    def convolution(layer, what, expected):
        """Compare (in_channels, out_channels, kernel, stride, groups) of a convolution, and its padding."""
        got = (layer.in_channels, layer.out_channels, square(layer.kernel_size), square(layer.stride), layer.groups,
               padding(layer))  # fmt: skip
        names = ("in_channels", "out_channels", "kernel", "stride", "groups", "padding")
        for name, one, want in zip(names, got, (*expected, expected[2] // 2), strict=True):
            hint = {
                "in_channels": "each convolution reads what the one before it writes",
                "out_channels": "hidden = t · in_channels for pw and dw; out_channels for pw-linear",
                "kernel": "pw and pw-linear are 1×1, dw is 3×3",
                "stride": "the stride belongs to dw",
                "groups": "dw has as many groups as channels, the others have 1",
                "padding": "kernel // 2 on both sides: 1 for dw, and none for the 1×1 convolutions",
            }[name]
            require(one == want, what=f"{what}: {name} is {one}, expected {want}", hint=hint)

    def layers(i, o, stride, t):
        block, what = built(i, o, stride, t)
        expected = EXPECTED[t == 1 :]
        got = [named(layer) for layer in block.conv]
        hint = "pw, dw, then the convolution and the batch-norm of pw-linear, not in a Sequential of their own"
        if t == 1 and got == EXPECTED:
            hint = "with t = 1 there is no pw"
        elif got == [*expected[:-1], "BatchNorm2d", "ReLU6"] or got == ["ConvReLU6"] * (2 + (t != 1)):
            hint = "pw-linear has no ReLU6"
        require(got == expected, what=f"{what}.conv holds {got}, expected {expected}", hint=hint)
        hidden = t * i
        pieces = [(block.conv[-3][0], "dw", (hidden, hidden, 3, stride, hidden)),
                  (block.conv[-2], "pw-linear", (hidden, o, 1, 1, 1))]  # fmt: skip
        if t != 1:
            pieces.insert(0, (block.conv[0][0], "pw", (i, hidden, 1, 1, 1)))
        for layer, name, wanted in pieces:
            convolution(layer, f"{what}, {name}", wanted)
        bias = block.conv[-2].bias is None
        require(bias, what=f"{what}: pw-linear has a bias", hint="bias=False: the batch-norm subtracts the mean")
        require(block.conv[-1].num_features == o, what=f"{what}: its last batch-norm has the wrong size",
                hint="as many channels as pw-linear writes")  # fmt: skip
        skip = stride == 1 and i == o
        hint = "both have the same shape if the stride is 1 and out_channels equals in_channels"
        require(bool(block.has_skip) == skip, what=f"{what}.has_skip is {block.has_skip}, expected {skip}", hint=hint)

    class Triple(nn.Module):
        def forward(self, x):
            return 3 * x

    def forward(o, stride):
        block, what = built(4, o, stride, 6)
        block.conv = Triple()
        x = torch.tensor([1.0, -2.0, 10.0])
        given = x.clone()
        got = block(x)
        if got is None:
            raise Wrong(f"{what}: forward returns None", "return the output")
        want = given * (4 if stride == 1 and o == 4 else 3)
        hint = "x + self.conv(x) if there is a skip, else self.conv(x); no activation after it"
        told = f"{what} with a conv that triples: forward({given.tolist()}) is {got.tolist()}, expected {want.tolist()}"
        require(torch.equal(got, want), what=told, hint=hint)
        require(torch.equal(x, given), what=f"{what}: forward changes its input", hint="x + …, not x += …")

    def run(i, o, stride, t):
        """Run the block as it is, without numbers."""
        block, what = built(i, o, stride, t)
        given = [2, i, 9, 12]
        with torch.device("meta"):
            got = list(block.eval()(torch.empty(given)).shape)
        wanted = [2, o, -(-9 // stride), -(-12 // stride)]
        told = f"{what}: an input of shape {given} becomes an output of shape {got}, expected {wanted}"
        require(got == wanted, what=told, hint="only the stride changes height and width")

    layers(24, 32, 2, 6)
    layers(16, 16, 1, 6)
    layers(32, 16, 1, 1)
    layers(12, 12, 2, 6)
    layers(8, 24, 1, 6)
    for o, stride in ((4, 1), (4, 2), (8, 1)):
        forward(o, stride)
    for o, stride, t in ((32, 1, 6), (24, 2, 1), (24, 1, 6)):
        run(24, o, stride, t)
    draw = python_random()
    for t in (1, 2, 4, 6, 1, 2, 4, 6):  # not drawn: the number of checks is the same in every run
        i = draw.randint(1, 40)
        layers(i, draw.choice([i, draw.randint(1, 60)]), draw.randint(1, 3), t)
