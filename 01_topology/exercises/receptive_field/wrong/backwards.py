# expect: a stride counts for the layers after it
def receptive_field(layers):
    field, step = 1, 1
    for kernel, stride in reversed(layers):
        field += (kernel - 1) * step
        step *= stride
    return field
