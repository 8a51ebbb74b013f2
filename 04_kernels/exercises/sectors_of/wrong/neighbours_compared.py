# expect: the order of the threads does not matter: a sector may come
import itertools


def sectors_of(addresses, size):
    """How many 32-byte sectors one request of a warp touches.

    addresses: the byte address that each active thread asks for, whole numbers, multiples of size.
    size: bytes an access, 1, 2, 4, 8 or 16.
    """
    jumps = [one // 32 != other // 32 for one, other in itertools.pairwise(addresses)]
    return sum(jumps) + bool(addresses)
