import numpy as np

from common.check import expect


def check(sectors_of):
    random = np.random.default_rng()

    def compare(case, addresses, size, hint):
        addresses = [int(address) for address in addresses]
        touched = {byte // 32 for address in addresses for byte in range(address, address + size)}
        expect(sectors_of(addresses, size), len(touched), what=f"sectors_of({case}, {size})", hint=hint)

    lanes = np.arange(32)
    compare("32 floats side by side", 4 * lanes, 4, "128 bytes from a multiple of 32 lie in 4 sectors")
    compare("32 floats from byte 4 on", 4 + 4 * lanes, 4, "sectors begin at multiples of 32, not at the first address")
    compare("every second float", 8 * lanes, 4, "each touched sector counts whole, however few of its bytes are wanted")
    hint = "sectors in the gaps between the addresses are not moved: count those that are touched"
    compare("every 32nd float", 128 * lanes, 4, hint)
    compare("the two ends of an array", [0, 4, 4096], 4, hint)
    compare("32 times the same float", [640] * 32, 4, "a sector that several threads touch is moved once")
    compare("a row backwards", 4 * lanes[::-1], 4, "the order of the threads does not matter")
    compare("five active threads", 4096 + 4 * lanes[:5], 4, "a warp need not be full: count what is in the list")
    for size in (1, 2, 8, 16):
        compare("accesses side by side", size * lanes, size, "an address is in bytes already, whatever the size is")
        drawn = size * random.integers(0, 2048 // size, 32)
        compare("drawn addresses", drawn, size, "the number of different values of address // 32")
    compare("[]", [], 4, "no active thread, no sector")
