from torch import nn


class MobileNetV2(nn.Module):
    def __init__(self, width=1.0, num_classes=1000):
        super().__init__()
        channels = make_divisible(32 * width)
        last_channels = make_divisible(1280 * max(1.0, width))  # the head is not made narrower
        features = [ConvReLU6(3, channels, stride=2)]
        # BEGIN SOLUTION
        # write: the loop that appends the blocks of all rows
        for t, c, n, s in TABLE:
            out_channels = make_divisible(c * width)
            for i in range(n):
                stride = s if i == 0 else 1
                features.append(InvertedResidual(channels, out_channels, stride, t))
                channels = out_channels
        # END SOLUTION
        features.append(ConvReLU6(channels, last_channels, kernel=1))
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(last_channels, num_classes))

    def forward(self, x):
        x = self.features(x)
        x = x.mean(dim=(2, 3))  # (N, 1280, 7, 7) → (N, 1280)
        return self.classifier(x)
