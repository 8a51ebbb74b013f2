import numpy as np  # once more, so that this cell runs by itself


def round_to_tf32(x):
    """The numbers rounded to TF32: to the nearest number with 10 fraction bits.

    A number in the middle between two may go to either.

    x: float32, any shape, finite; not changed. Gives a new float32 array.
    """
    # BEGIN SOLUTION
    # write: x rounded to 10 fraction bits
    bits = np.array(x, np.float32).view(np.uint32)
    half = 0x1000  # of the last bit that stays
    return ((bits + half) & np.uint32(0xFFFFE000)).view(np.float32)
    # END SOLUTION
