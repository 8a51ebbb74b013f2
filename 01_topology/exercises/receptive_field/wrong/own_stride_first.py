# expect: own stride does not widen
def receptive_field(layers):
    field, step = 1, 1
    for kernel, stride in layers:
        step *= stride
        field += (kernel - 1) * step
    return field
