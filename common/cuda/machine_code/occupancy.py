"""How many blocks and warps of a kernel fit on a multiprocessor at the same time, and what limits them.

The numbers of the cards are those of NVIDIA's tables: "Compute Capabilities: Technical Specifications" of the CUDA C++
Programming Guide, and the tuning guides of Turing, Ampere, Ada and Hopper. The rules of allocation are those of
cuda_occupancy.h, NVIDIA's own calculator, with which the tests compare every number.
"""

import math
from dataclasses import dataclass

WARP = 32
SCHEDULERS = 4  # per multiprocessor: each has a quarter of the registers
REGISTER_UNIT = 256  # a warp's registers are allocated in units of so many
LEAST_REGISTERS = 16  # that a thread is given, whatever its kernel uses: measured on an H200


@dataclass(frozen=True)
class Card:
    """A GPU, as far as occupancy depends on it.

    arch: "sm_90". multiprocessors: how many it has. warps, blocks, registers, shared: of one multiprocessor, shared
    memory in bytes. shared_block: the most bytes for one block, with opt-in. shared_unit: a block's shared memory is
    allocated in units of so many bytes. reserved: bytes of shared memory per block that the system keeps for itself.
    carve_outs: the sizes in KiB that shared memory can have; the rest of the memory it is a part of is L1 cache.
    """

    name: str
    arch: str
    multiprocessors: int
    warps: int
    blocks: int
    shared: int
    shared_block: int
    shared_unit: int
    reserved: int
    carve_outs: tuple[int, ...]
    registers: int = 65536


KIB = 1024
CARDS = {
    card.name: card
    for card in (
        Card("T4", "sm_75", 40, 32, 16, 64 * KIB, 64 * KIB, 256, 0, (32, 64)),
        Card("A100", "sm_80", 108, 64, 32, 164 * KIB, 163 * KIB, 128, KIB, (0, 8, 16, 32, 64, 100, 132, 164)),
        Card("L4", "sm_89", 58, 48, 24, 100 * KIB, 99 * KIB, 128, KIB, (0, 8, 16, 32, 64, 100)),
        Card("H200", "sm_90", 132, 64, 32, 228 * KIB, 227 * KIB, 128, KIB, (0, 8, 16, 32, 64, 100, 132, 164, 196, 228)),
    )
}


def card(name: str) -> Card:
    """The card of that name, "H200". ValueError for another one."""
    if name not in CARDS:
        raise ValueError(f"card must be one of {', '.join(CARDS)}, got {name!r}")
    return CARDS[name]


@dataclass(frozen=True)
class Occupancy:
    """What fits on one multiprocessor of a card at the same time.

    blocks, warps: how many. share: warps, as a share of the most that the card can hold. limits: how many blocks each
    resource alone would allow: "warps", "blocks", "registers", "shared memory". limit: the one that allows fewest.
    carve_out: KiB of shared memory that are set aside for the blocks; the L1 cache has what is left.
    """

    card: Card
    block: int
    blocks: int
    limits: dict[str, int]
    limit: str
    carve_out: int

    @property
    def warps(self) -> int:
        """Warps per multiprocessor."""
        return self.blocks * -(-self.block // WARP)

    @property
    def share(self) -> float:
        """Warps, as a share of the most that the card can hold: 0 … 1."""
        return self.warps / self.card.warps

    def __str__(self) -> str:
        if not self.blocks:
            return f"{self.card.name}: no block fits: {self.limit}"
        blocks = f"{self.blocks} block{'s' * (self.blocks != 1)}"
        warps = f"{self.warps} of {self.card.warps} warps"
        share = f"{100 * self.share:.0f} %"
        return f"{self.card.name}: {blocks} per multiprocessor, {warps} ({share}), limited by {self.limit}"


def occupancy(name: str, block: int, registers: int, shared: int) -> Occupancy:
    """The occupancy of a card by blocks of `block` threads, `registers` per thread, `shared` bytes per block.

    ValueError for a card that is not in CARDS, or a block size outside of 1 … 1024.
    """
    on = card(name)
    if not 1 <= block <= 1024:
        raise ValueError(f"block must have 1 to 1024 threads, got {block}")
    warps = -(-block // WARP)
    limits = {
        "warps": on.warps // warps,
        "blocks": on.blocks,
        "registers": warps_by_registers(on, registers) // warps,
        "shared memory": 0
        if shared > on.shared_block
        else on.shared // _allocated(on, shared)
        if shared
        else on.blocks,
    }
    if not shared and on.reserved:
        limits["shared memory"] = on.shared // on.reserved
    blocks = min(limits.values())
    limit = next(what for what, number in limits.items() if number == blocks)
    needed = blocks * _allocated(on, shared)
    return Occupancy(on, block, blocks, limits, limit, next(k for k in on.carve_outs if k * KIB >= needed))


def warps_by_registers(on: Card, registers: int) -> int:
    """The warps per multiprocessor that the registers allow: each scheduler has a quarter of them, for its warps."""
    each = math.ceil(max(registers, LEAST_REGISTERS) * WARP / REGISTER_UNIT) * REGISTER_UNIT
    return SCHEDULERS * (on.registers // SCHEDULERS // each)


def _allocated(on: Card, shared: int) -> int:
    """The bytes of shared memory that a block takes from its multiprocessor."""
    return math.ceil(shared / on.shared_unit) * on.shared_unit + on.reserved
