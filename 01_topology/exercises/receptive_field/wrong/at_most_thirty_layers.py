# expect: each layer adds kernel − 1 steps
def receptive_field(layers):
    field, step = 1, 1
    for kernel, stride in layers[:30]:
        field += (kernel - 1) * step
        step *= stride
    return field
