def block_parameters(in_channels, out_channels, t):
    """How many learned numbers an inverted residual block holds, with its batch-norms.

    Its convolutions have no bias. A batch-norm learns a weight and a bias a channel; its running mean and
    variance are measured, not learned. With t = 1 there is no expanding convolution.
    """
    ...  # your code
