# expect: an address is in bytes already, whatever the size is
def sectors_of(addresses, size):
    """How many 32-byte sectors one request of a warp touches.

    addresses: the byte address that each active thread asks for, whole numbers, multiples of size.
    size: bytes an access, 1, 2, 4, 8 or 16.
    """
    return len({address * size // 32 for address in addresses})
