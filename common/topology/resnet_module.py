"""ResNet-20 as a PyTorch module, with the names that `topology.resnet20` gives its layers."""

import torch
from torch import nn

from .resnet import BLOCKS, STAGES


class BasicBlock(nn.Module):
    """relu(bn(conv(relu(bn(conv(x))))) + shortcut(x)), the shortcut a 1×1 convolution where the shape changes."""

    def __init__(self, in_channels: int, out_channels: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, out_channels, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(out_channels)
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(out_channels)
        self.shortcut = nn.Sequential()
        if stride != 1 or in_channels != out_channels:
            project = nn.Conv2d(in_channels, out_channels, 1, stride, bias=False)
            self.shortcut = nn.Sequential(project, nn.BatchNorm2d(out_channels))
        self.relu2 = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x (N, in_channels, H, W) → (N, out_channels, ⌈H / stride⌉, ⌈W / stride⌉)."""
        branch = self.bn2(self.conv2(self.relu1(self.bn1(self.conv1(x)))))
        return self.relu2(branch + self.shortcut(x))


class ResNet20(nn.Module):
    """x (N, in_channels, H, W) → logits (N, num_classes), for any H and W.

    Convolutions start He-normal, as in the paper: K. He et al. (arXiv:1512.03385), section 4.2.
    """

    def __init__(self, num_classes: int = 10, in_channels: int = 3):
        super().__init__()
        self.in_channels = in_channels
        channels = STAGES[0]
        stem = nn.Conv2d(in_channels, channels, 3, padding=1, bias=False)
        self.stem = nn.Sequential(stem, nn.BatchNorm2d(channels), nn.ReLU())
        stages = []
        for stage, out_channels in enumerate(STAGES):
            blocks = []
            for block in range(BLOCKS):
                blocks.append(BasicBlock(channels, out_channels, stride=2 if stage and not block else 1))
                channels = out_channels
            stages.append(nn.Sequential(*blocks))
        self.stages = nn.Sequential(*stages)
        self.classifier = nn.Linear(channels, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x (N, in_channels, H, W) → logits (N, num_classes)."""
        x = self.stages(self.stem(x))
        x = nn.functional.adaptive_avg_pool2d(x, (1, 1))
        return self.classifier(torch.flatten(x, 1))
