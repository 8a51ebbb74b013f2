# expect: fields overlap, they do not multiply
def receptive_field(layers):
    field = 1
    for kernel, _ in layers:
        field *= kernel
    return field
