# expect: all strides before a layer multiply
def receptive_field(layers):
    field, step = 1, 1
    for kernel, stride in layers:
        field += (kernel - 1) * step
        step = stride
    return field
