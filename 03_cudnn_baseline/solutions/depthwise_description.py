from common import cudnn  # once more, so that this cell runs by itself


def depthwise_description():
    """The layer as a cudnn.Convolution."""
    # BEGIN SOLUTION
    # write: return cudnn.Convolution(...)
    return cudnn.Convolution(
        x=(1, 96, 112, 112), w=(96, 1, 3, 3), stride=(2, 2), padding=(1, 1), bias=True,
        bounds=(0.0, 6.0), layout="NHWC", arithmetic="fp32",
    )  # fmt: skip
    # END SOLUTION
