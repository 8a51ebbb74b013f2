# expect: begins at 1, not at 0
def receptive_field(layers):
    field, step = 0, 1
    for kernel, stride in layers:
        field += (kernel - 1) * step
        step *= stride
    return field
