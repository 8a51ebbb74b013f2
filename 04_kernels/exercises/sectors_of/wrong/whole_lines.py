# expect: 128 bytes from a multiple of 32 lie in 4 sectors
def sectors_of(addresses, size):
    """How many 32-byte sectors one request of a warp touches.

    addresses: the byte address that each active thread asks for, whole numbers, multiples of size.
    size: bytes an access, 1, 2, 4, 8 or 16.
    """
    return len({address // 128 for address in addresses})
