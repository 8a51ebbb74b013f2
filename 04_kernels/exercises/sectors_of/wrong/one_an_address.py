# expect: a sector that several threads touch is moved once
def sectors_of(addresses, size):
    """How many 32-byte sectors one request of a warp touches.

    addresses: the byte address that each active thread asks for, whole numbers, multiples of size.
    size: bytes an access, 1, 2, 4, 8 or 16.
    """
    return (
        len(addresses) if size * len(addresses) > 128 or len(set(addresses)) == 1 else len({a // 32 for a in addresses})
    )
