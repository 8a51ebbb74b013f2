def place_in_an_arena(lifetimes, alignment=256):
    """Where each tensor lies in one piece of memory: {tensor: offset in bytes}.

    lifetimes: {tensor: (size, first, last)}: bytes, and the first and last step at which it must be there, both
    included. Tensors that must be there at the same step must not overlap. Offsets are multiples of alignment.
    The memory ends with the last byte of the tensor that reaches furthest; it should be small.
    """
    ...  # your code
