def block_parameters(in_channels, out_channels, t):
    def conv_norm(inputs, outputs, kernel):
        return outputs * inputs * kernel * kernel + 2 * outputs

    hidden = in_channels * t
    total = conv_norm(1, hidden, 3) + conv_norm(hidden, out_channels, 1)
    if t > 1:
        total += conv_norm(in_channels, hidden, 1)
    return total
