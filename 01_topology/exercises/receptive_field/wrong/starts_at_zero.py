# expect: a layer with kernel 3 sees 3 inputs
def receptive_field(layers):
    field, step = 0, 1
    for kernel, stride in layers:
        field += (kernel - 1) * step
        step *= stride
    return field
