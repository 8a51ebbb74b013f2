# expect: a sector has 32 bytes; 128 are a line, of four sectors
def sectors_of(addresses, size):
    """How many 32-byte sectors one request of a warp touches.

    addresses: the byte address that each active thread asks for, whole numbers, multiples of size.
    size: bytes an access, 1, 2, 4, 8 or 16.
    """
    return len({address // 128 for address in addresses})
