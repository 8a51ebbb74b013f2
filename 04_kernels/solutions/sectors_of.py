def sectors_of(addresses, size):
    """How many 32-byte sectors one request of a warp touches.

    addresses: the byte address that each active thread asks for, whole numbers, multiples of
    size. size: bytes an access, 1, 2, 4, 8 or 16.
    """
    # BEGIN SOLUTION
    # write: the number of sectors
    # an aligned access lies in one sector
    return len({address // 32 for address in addresses})
    # END SOLUTION
