from torch import nn


class ConvReLU6(nn.Sequential):
    """Given: a convolution, its batch-norm and ReLU6."""

    def __init__(self, in_channels, out_channels, kernel=3, stride=1, groups=1):
        window = {"kernel_size": kernel, "stride": stride, "padding": kernel // 2}
        conv = nn.Conv2d(in_channels, out_channels, **window, groups=groups, bias=False)
        super().__init__(conv, nn.BatchNorm2d(out_channels), nn.ReLU6(inplace=True))


class InvertedResidual(nn.Module):
    def __init__(self, in_channels, out_channels, stride, t):
        super().__init__()
        # BEGIN SOLUTION
        # write: self.has_skip and self.conv
        hidden = t * in_channels
        self.has_skip = stride == 1 and in_channels == out_channels
        layers = [ConvReLU6(in_channels, hidden, kernel=1)] if t != 1 else []  # pw
        layers.append(ConvReLU6(hidden, hidden, stride=stride, groups=hidden))  # dw
        layers.append(nn.Conv2d(hidden, out_channels, 1, bias=False))  # pw-linear
        layers.append(nn.BatchNorm2d(out_channels))
        self.conv = nn.Sequential(*layers)
        # END SOLUTION

    def forward(self, x):
        # BEGIN SOLUTION
        # write: the block's output for its input x
        return x + self.conv(x) if self.has_skip else self.conv(x)
        # END SOLUTION
