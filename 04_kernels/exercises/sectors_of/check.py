from itertools import pairwise

import numpy as np

from common.check import expect
from common.check.trials import Slips, seeded


def touched(addresses, size, sector=32):
    return len({byte // sector for address in addresses for byte in (address, address + size - 1)})


SLIPS = {
    "a sector has 32 bytes; 128 are a line, of four sectors": lambda addresses, size: touched(addresses, size, 128),
    "an address is in bytes already, whatever the size is": lambda addresses, size: len(
        {address * size // 32 for address in addresses}
    ),
    "sectors begin at multiples of 32, not at the first address": lambda addresses, size: len(
        {(address - min(addresses)) // 32 for address in addresses}
    ),
    "each touched sector counts whole, however few of its bytes are wanted": lambda addresses, size: (
        -(-len(addresses) * size // 32)
    ),
    "a sector that several threads touch is moved once": lambda addresses, size: len(addresses),
    "an address that occurs twice is in the same sector; different addresses may be as well": lambda addresses, size: (
        len(set(addresses))
    ),
    "sectors in the gaps between the addresses are not moved": lambda addresses, size: (
        (max(addresses) + size - 1) // 32 - min(addresses) // 32 + 1
    ),
    "the order of the threads does not matter: a sector may come again later": lambda addresses, size: (
        1 + sum(a // 32 != b // 32 for a, b in pairwise(addresses))
    ),
}


def check(sectors_of):
    random, _ = seeded()
    slips = Slips(SLIPS)

    def compare(case, addresses, size, hint):
        addresses = [int(address) for address in addresses]
        got = sectors_of(list(addresses), size)
        hint = slips.hint(got, (addresses, size), hint)
        expect(got, touched(addresses, size), what=f"sectors_of({case}, {size})", hint=hint)

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
        every = "the number of different sectors that the addresses lie in"
        compare(drawn.tolist(), drawn, size, every)
        far = [size * int(number) for number in random.integers(0, 2**58, 8)]
        compare(
            "addresses all over a large memory",
            [*far, far[0] ^ 32, *(far[0] + size * 2**power for power in (10, 20, 32, 40)), *far[::-1]],
            size,
            every,
        )
        begin = 2**47 + 32 * int(random.integers(0, 2**40))
        for count in (1, 2, 7, 31, 32):
            near = [begin + size * int(number) for number in random.integers(0, 999 // size, count)]
            compare(f"{[address - begin for address in near]} + {begin}", near, size, every)
