def receptive_field(layers):
    if not layers:
        return 1
    kernel, stride = layers[0]
    return (receptive_field(layers[1:]) - 1) * stride + kernel
