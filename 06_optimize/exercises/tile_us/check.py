import functools
import math

from common.bench.candidates import BLOCKS
from common.check import require
from common.lab import oracle

FIRST = 12
TARGET = 1.1  # the best of the first 12 over the best of all: the geometric mean of eight cases


@functools.cache
def cases():
    """[(title, [(counts of a tile, its µs)], the fastest)]: four blocks at two batches."""
    found = []
    for block in BLOCKS.values():
        for batch in (1, 256):
            one = oracle.of(block, "fp16", batch).sample()
            timed = [(oracle.counted(block, tile, "fp16", batch), one.ask(tile)) for tile in one.tiles]
            found.append((f"{block}, batch {batch}", timed, min(us for _, us in timed)))
    return found


def check(tile_us):
    scores = []
    for title, timed, best in cases():
        guessed = []
        for counts, us in timed:
            guess = tile_us(dict(counts))
            if not (isinstance(guess, (int, float)) and math.isfinite(guess) and guess > 0):
                require(False, what=f"tile_us({counts}) gives {guess!r}", hint="a number of µs above 0")
            guessed.append((guess, us))
        distinct = len({guess for guess, _ in guessed})
        require(
            distinct > len(guessed) / 10,
            what=f"{title}: {len(guessed)} tiles get only {distinct} different predictions",
            hint="what of a thread block's work, of its loads and of its waiting depends on the tile?",
        )
        # of equal predictions the slowest counts: an order by chance is none
        guessed.sort(key=lambda pair: (pair[0], -pair[1]))
        scores.append((min(us for _, us in guessed[:FIRST]) / best, title))
    mean = math.exp(sum(math.log(score) for score, _ in scores) / len(scores))
    worst, title = max(scores)
    require(
        mean <= TARGET,
        what=f"right, and not yet what was asked: of the first {FIRST} tiles of your ranking the fastest takes "
        f"{mean:.2f}× the time of the fastest of all, on average over {len(scores)} cases; {TARGET}× at most was "
        f"asked. The worst is "
        f"{title} with {worst:.2f}×",
        hint="waves first: how often is the card filled? Then, of a thread block: computing, loading, waiting. Which "
        "of them overlap, and which add up?",
    )
