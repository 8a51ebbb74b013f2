from common.check import expect
from common.check.trials import Slips, seeded
from common.cuda.machine_code import occupancy


def limits(threads, registers, shared, unit=256, reserved=1024, quarters=True, whole=True):
    warps = -(-threads // 32) if whole else threads / 32
    each = -(-32 * registers // unit) * unit
    held = 4 * (16_384 // each) if quarters else 65_536 // each
    return int(64 // warps), 32, int(held // warps), 228 * 1024 // (-(-shared // 128) * 128 + reserved)


SLIPS = {
    "registers limit the blocks, too": lambda t, r, s: min(limits(t, 1, s)),
    "shared memory limits the blocks, too": lambda t, r, s: min(limits(t, r, 0)),
    "an SM holds at most 64 warps": lambda t, r, s: min(limits(t, r, s)[1:]),
    "an SM holds at most 32 blocks": lambda t, r, s: min(n for k, n in enumerate(limits(t, r, s)) if k != 1),
    "a warp's registers are allocated in units of 256": lambda t, r, s: min(limits(t, r, s, unit=1)),
    "each scheduler has 16,384 registers, and a warp's registers lie in one scheduler": lambda t, r, s: min(
        limits(t, r, s, quarters=False)
    ),
    "the system reserves 1,024 bytes of shared memory per block": lambda t, r, s: min(limits(t, r, s, reserved=1e-9)),
    "a block has whole warps: 33 threads are 2 warps": lambda t, r, s: min(limits(t, r, s, whole=False)),
}


def check(blocks_per_sm):
    random, _ = seeded()
    slips = Slips(SLIPS)

    def compare(threads, registers, shared, hint):
        got = blocks_per_sm(threads, registers, shared)
        want = occupancy("H200", threads, registers, shared).blocks
        hint = slips.hint(got, (threads, registers, shared), hint)
        expect(got, want, what=f"blocks_per_sm({threads}, {registers}, {shared})", hint=hint)

    compare(256, 32, 0, "256 threads are 8 warps, and an SM holds 64")
    compare(32, 16, 0, "an SM holds at most 32 blocks")
    compare(256, 40, 0, "a warp takes 32 · 40 registers, and a scheduler has 16,384")
    compare(64, 43, 0, "a warp's registers are allocated in units of 256")
    compare(256, 172, 8192, "which of the four limits is the smallest?")
    compare(1024, 72, 0, "the result is 0 if not even one block fits")
    compare(128, 32, 20_000, "shared memory limits the blocks, too")
    compare(64, 32, 8 * 1024, "the system reserves 1,024 bytes of shared memory per block")
    compare(65, 32, 0, "a block has whole warps: 65 threads are 3 warps")
    compare(96, 96, 0, "each scheduler has 16,384 registers, and a warp's registers lie in one scheduler")
    for _ in range(60):
        threads, registers = int(random.integers(1, 1025)), int(random.integers(16, 256))
        shared = int(random.choice([0, 0, int(random.integers(1, 100_000))]))
        compare(threads, registers, shared, "the smallest of the four limits")
