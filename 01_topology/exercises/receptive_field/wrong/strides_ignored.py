# expect: a stride counts for the layers after it
def receptive_field(layers):
    field = 1
    for kernel, _ in layers:
        field += kernel - 1
    return field
