def block_parameters(in_channels, out_channels, t):
    """How many learned numbers an inverted residual block holds, with its batch-norms.

    Its convolutions have no bias. A batch-norm learns a weight and a bias per channel; its
    running mean and variance are measured, not learned. With t = 1 there is no expanding
    convolution.
    """
    # BEGIN SOLUTION
    # write: the number of learned parameters
    hidden = t * in_channels
    expand = in_channels * hidden + 2 * hidden if t != 1 else 0
    depthwise = 3 * 3 * hidden + 2 * hidden
    project = hidden * out_channels + 2 * out_channels
    return expand + depthwise + project
    # END SOLUTION
