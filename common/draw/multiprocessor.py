"""A multiprocessor: its parts, its issue slots cycle by cycle, what limits its blocks, divergence, waves of blocks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from ..cuda.machine_code.occupancy import CARDS, SCHEDULERS, Occupancy
from ..report import multiprocessor as records
from ..report import results, tables
from ..report.plots import CARD, WIDTH
from ..report.results import Results
from .canvas import (
    BLUE,
    DARK_RED,
    GREEN,
    GREY,
    ORANGE,
    PAPER,
    PURPLE,
    SKY,
    Drawing,
    canvas,
    cell,
    frame,
    positive,
    text,
)
from .card import WARP, measured
from .hardware import quantity

# by architecture: fp32 units per scheduler (CUDA C++ Programming Guide, "Arithmetic Instructions"), and KiB of shared
# memory and L1 cache together (its "Compute Capabilities")
LANES = {"sm_75": 16, "sm_80": 16, "sm_89": 32, "sm_90": 32}
L1_AND_SHARED = {"sm_75": 96, "sm_80": 192, "sm_89": 128, "sm_90": 256}
_WARPS = (BLUE, ORANGE, GREEN, PURPLE, SKY)


def multiprocessor(name: str = "H200") -> Drawing:
    """The parts of one multiprocessor of a card of CARDS: schedulers with warps, registers, lanes; shared memory."""
    on = CARDS[name]
    slots, registers, lanes = on.warps // SCHEDULERS, on.registers // SCHEDULERS, LANES[on.arch]
    both = quantity(L1_AND_SHARED[on.arch] * 1024, "B", 1024)
    figure, axes = canvas(24, 10.6)
    text(axes, 0.4, 0.6, f"one multiprocessor (SM) of {on.multiprocessors} on an {name}", 12, ha="left", weight="bold")
    for k in range(SCHEDULERS):
        x = 0.4 + 5.85 * k
        frame(axes, x, 1.2, 5.6, 6.5, GREY, 0.2)
        text(axes, x + 2.8, 1.7, f"warp scheduler {k}", 11, weight="bold")
        text(axes, x + 2.8, 2.3, "1 instruction per cycle", 10, color=GREY)
        for slot in range(slots):
            row, column = divmod(slot, 8)
            cell(axes, x + 0.3 + 0.63 * column, 2.7 + 0.5 * row, 0.57, 0.42, BLUE)
        text(axes, x + 2.8, 4.0, f"room for {slots} warps", 10)
        frame(axes, x + 0.3, 4.4, 5.0, 1.25, GREEN, 0.12)
        text(axes, x + 2.8, 4.8, f"{registers:,} registers", 10.5, weight="bold")
        text(axes, x + 2.8, 5.3, quantity(registers * 4, "B", 1024), 10)
        frame(axes, x + 0.3, 5.95, 5.0, 1.45, PURPLE, 0.12)
        text(axes, x + 2.8, 6.4, f"{lanes} multiply-add units", 10, weight="bold")
        text(axes, x + 2.8, 6.95, f"a warp takes {WARP // lanes} cycle{'s' * (lanes < WARP)}", 10)
    frame(axes, 0.4, 8.0, 23.15, 1.4, ORANGE, 0.15)
    shared = quantity(on.shared, "B", 1024)
    words = f"shared memory and L1 cache: {both}, at most {shared} of it shared memory"
    text(axes, 12, 8.7, words, 11, weight="bold")
    text(axes, 0.4, 9.95, f"room for {on.blocks} blocks and {on.warps} warps; "
         f"a block is on one SM, a warp with one scheduler until it ends", 10, ha="left", color=GREY)  # fmt: skip
    return Drawing(
        figure,
        f"A multiprocessor of an {name} has {SCHEDULERS} warp schedulers. Each issues an instruction per cycle, has"
        f" room for {slots} warps, {registers:,} registers and {lanes} multiply-add units. Together they use"
        f" shared memory and L1 cache of {both}.",
    )


def issued(warps: int, chains: int, latency: int, cycles: int) -> list[tuple[int, int] | None]:
    """What one scheduler issues in each cycle: (warp, chain), or None.

    Each warp has `chains` chains of instructions; an instruction needs the one before it in its chain, `latency` cycles
    earlier. The scheduler stays with a warp as long as that is ready, then takes the one that has waited longest.
    """
    ready = [[0] * chains for _ in range(warps)]
    last, current = [-1] * warps, 0
    found: list[tuple[int, int] | None] = []
    for cycle in range(cycles):
        able = [w for w in range(warps) if min(ready[w]) <= cycle]
        if not able:
            found.append(None)
            continue
        current = current if current in able else min(able, key=lambda w: last[w])
        chain = min(range(chains), key=lambda c: ready[current][c])
        ready[current][chain] = cycle + latency
        last[current] = cycle
        found.append((current, chain))
    return found


def issue_slots(warps: int = 1, chains: int = 1, latency: int = 4, cycles: int = 16, labels: bool = True) -> Drawing:
    """One scheduler cycle by cycle: which warp issues an instruction of which chain, and which issue slots stay empty.

    labels: whether to count the issue slots that are used. ValueError for sizes that do not fit.
    """
    positive(warps=warps, chains=chains, latency=latency, cycles=cycles)
    if warps > len(_WARPS) or cycles > 24:
        raise ValueError(f"warps must be at most {len(_WARPS)} and cycles at most 24, got {warps} and {cycles}")
    slots = issued(warps, chains, latency, cycles)
    figure, axes = canvas(cycles + 5.6, 3.2 + 1.0 * warps)
    text(axes, 4.8, 0.6, "cycle", 10, ha="right", color=GREY)
    for cycle in range(cycles):
        text(axes, 5.5 + cycle, 0.6, str(cycle), 10, color=GREY)
    for warp in range(warps):
        text(axes, 4.8, 1.5 + warp, f"warp {warp}", 11, ha="right")
        for cycle, slot in enumerate(slots):
            mine = slot is not None and slot[0] == warp
            cell(axes, 5.04 + cycle, 1.05 + warp, 0.92, 0.9, _WARPS[warp] if mine else PAPER)
            if mine and slot is not None:
                text(axes, 5.5 + cycle, 1.5 + warp, "abcdefgh"[slot[1] % 8], 11)
    y = 1.25 + warps
    text(axes, 4.8, y + 0.45, "issue slot", 11, ha="right", weight="bold")
    for cycle, slot in enumerate(slots):
        cell(axes, 5.04 + cycle, y, 0.92, 0.9, GREY if slot else PAPER)
        if slot is None:
            text(axes, 5.5 + cycle, y + 0.45, "–", 11, color=DARK_RED)
    used = sum(slot is not None for slot in slots)
    notes = f"a letter: the chain; an instruction waits {latency} cycles for the one before it in its chain."
    if labels:
        notes += f" {used} of {cycles} slots used"
    text(axes, 0.4, y + 1.5, notes, 10, ha="left", color=GREY)
    return Drawing(
        figure,
        f"{cycles} cycles of a scheduler with {warps} warp{'s' * (warps > 1)} of {chains} chain{'s' * (chains > 1)}"
        f" each, at a latency of {latency} cycles:"
        + (f" {used} issue slots are used." if labels else " in some of them no warp can issue an instruction."),
    )


def block_limits(fits: Occupancy) -> Drawing:
    """What limits the blocks of one multiprocessor: how many each resource alone would allow."""
    figure, axes = canvas(24, 6.4)
    names = {
        "warps": "warps",
        "blocks": "places for blocks",
        "registers": "registers",
        "shared memory": "shared memory",
    }
    most = min(max(fits.limits.values()), fits.card.blocks)  # drawn; more cannot be held
    text(axes, 0.4, 0.6, f"{fits.card.name}, blocks of {fits.block} threads: how many each limit allows", 11, ha="left",
         weight="bold")  # fmt: skip
    for row, (limit, number) in enumerate(fits.limits.items()):
        y = 1.3 + 1.05 * row
        least = number == fits.blocks
        text(axes, 6.3, y + 0.4, names[limit], 11, ha="right", weight="bold" if least else "normal")
        wide = 15.5 / max(most, 8)
        for k in range(min(number, most)):
            cell(axes, 6.7 + k * wide, y, 0.85 * wide, 0.8, ORANGE if least else BLUE)
        shown = f"… {number}" if number > most else str(number)
        x = 6.9 + min(number, most) * wide
        text(axes, x, y + 0.4, shown, 11, ha="left", weight="bold" if least else "normal")
    words = f"{fits.blocks} block{'s' * (fits.blocks != 1)}, {fits.warps} of {fits.card.warps} warps: {fits.share:.0%}"
    text(axes, 0.4, 5.9, words, 11, ha="left")
    allowed = ", ".join(f"{names[limit]} {number}" for limit, number in fits.limits.items())
    return Drawing(figure, f"Blocks per multiprocessor that each limit allows: {allowed}. So {words}.")


def divergence(arms: int = 4, lanes: int = WARP) -> Drawing:
    """A warp in `arms` arms of an if, chosen by lane: in each arm the lanes of the others wait."""
    positive(arms=arms, lanes=lanes)
    if arms > len(_WARPS) or lanes > WARP:
        raise ValueError(f"arms must be at most {len(_WARPS)} and lanes at most {WARP}, got {arms} and {lanes}")
    figure, axes = canvas(38, 3.0 + 1.5 * arms)
    text(axes, 4.6, 0.8, "lane", 10, ha="right", color=GREY)
    for lane in range(lanes):
        text(axes, 5.5 + lane, 0.8, str(lane), 10, color=GREY)
    for arm in range(arms):
        y = 1.4 + 1.5 * arm
        text(axes, 4.6, y + 0.6, f"arm {arm}", 11, ha="right")
        for lane in range(lanes):
            active = lane % arms == arm
            cell(axes, 5.04 + lane, y, 0.92, 1.2, _WARPS[arm] if active else PAPER)
            if not active:
                text(axes, 5.5 + lane, y + 0.6, "·", 11, color=GREY)
    words = f"time ↓   the arm of a lane: lane % {arms}. A dot: the lane waits"
    text(axes, 5.0, 1.9 + 1.5 * arms, words, 10, ha="left", color=GREY)
    return Drawing(
        figure,
        f"A warp of {lanes} lanes executes {arms} arms one after the other. In arm k, the lanes with lane % {arms} = k"
        " are active and all others wait.",
    )


def waves(blocks: int = 20, slots: int = 8) -> Drawing:
    """Blocks of equal length on a card that holds `slots` of them at a time: wave after wave, the last not full."""
    positive(blocks=blocks, slots=slots)
    rounds = -(-blocks // slots)
    if slots > 16 or rounds > 6:
        raise ValueError(f"slots must be at most 16 and waves at most 6, got {slots} and {rounds}")
    figure, axes = canvas(4.6 + 2.2 * rounds + 6, 2.6 + 0.62 * slots)
    for wave in range(rounds):
        text(axes, 5.6 + 2.2 * wave, 0.6, f"wave {wave}", 11, weight="bold")
    for slot in range(slots):
        text(axes, 4.2, 1.36 + 0.62 * slot, f"place {slot}", 10, ha="right", color=GREY)
        for wave in range(rounds):
            number = wave * slots + slot
            present = number < blocks
            cell(
                axes, 4.6 + 2.2 * wave, 1.08 + 0.62 * slot, 2.1, 0.55, _WARPS[wave % len(_WARPS)] if present else PAPER
            )
            if present:
                text(axes, 5.65 + 2.2 * wave, 1.36 + 0.62 * slot, str(number), 10)
    idle = rounds * slots - blocks
    text(axes, 4.6, 1.7 + 0.62 * slots, "time →", 10, ha="left", color=GREY)
    if idle:
        text(axes, 3.45 + 2.2 * rounds, 1.5 + 0.62 * slots, "tail", 11, weight="bold")
    text(axes, 5.2 + 2.2 * rounds, 1.4, f"{blocks} blocks\n{slots} at a time", 11, ha="left", va="top")
    return Drawing(
        figure,
        f"{blocks} blocks on {slots} places run in {rounds} waves; in the last wave {idle} places stay empty"
        + (": this wave is the tail." if idle else "."),
    )


@dataclass(frozen=True)
class Level:
    """A level of memory: its size, and the cycles that a load takes. bytes_per_s: read by all SMs; None if unknown."""

    name: str
    size: str
    cycles: float
    bytes_per_s: float | None = None


def measured_levels(recorded: Results | None = None) -> list[Level]:
    """The levels of the H200's memory: latencies of the suite "multiprocessor", bandwidths of the suite "peaks"."""
    recorded = recorded or results.load(tables.CARD)
    shared, cache, memory = measured(recorded).levels[1:]
    peaks = results.find(recorded, suite="peaks")

    def rate(case: str) -> float:
        return float(max(r["bytes"] / r["median_us"] * 1e6 for r in peaks if r["case"].startswith(case)))

    def cycles(level: str) -> float:
        return float(records.value("latency", "cycles", recorded, case=f"latency: {level}"))

    return [
        Level("shared memory", "228 KB per SM", cycles("shared memory"), shared.bytes_per_s),
        Level("L1 cache", "256 KB with shared memory", cycles("L1")),
        Level("L2 cache", quantity(cache.bytes, "B", 1024), cycles("L2"), rate("l2-read")),
        Level("global memory", quantity(memory.bytes, "B"), cycles("global memory"), rate("read")),
    ]


def levels(rows: Sequence[Level] | None = None, name: str = "H200") -> Drawing:
    """How long a load takes from each level of memory, as bars, with sizes and bandwidths. rows: as measured."""
    rows = measured_levels() if rows is None else rows
    figure, axes = canvas(24, 2.6 + 1.1 * len(rows))
    longest = max(row.cycles for row in rows)
    text(axes, 0.4, 0.6, f"{name}: cycles until a load can be used", 11, ha="left", weight="bold")
    text(axes, 23.4, 0.6, "read by all SMs", 10, ha="right", color=GREY)
    said = []
    for k, (row, colour) in enumerate(zip(rows, (ORANGE, ORANGE, BLUE, PURPLE), strict=True)):
        y = 1.3 + 1.1 * k
        text(axes, 6.2, y + 0.28, row.name, 11, ha="right", weight="bold")
        text(axes, 6.2, y + 0.75, row.size, 10, ha="right", color=GREY)
        wide = 12.0 * row.cycles / longest
        cell(axes, 6.6, y + 0.1, wide, 0.75, colour)
        text(axes, 6.8 + wide, y + 0.5, f"{row.cycles:.0f}", 11, ha="left")
        rate = "" if row.bytes_per_s is None else quantity(row.bytes_per_s, "B/s")
        text(axes, 23.4, y + 0.5, rate, 11, ha="right")
        said.append(f"{row.name}, {row.size}: {row.cycles:.0f} cycles{f', {rate}' if rate else ''}")
    notes = "measured with one thread and a chain of dependent loads; the rate of shared memory is computed"
    text(axes, 0.4, 1.9 + 1.1 * len(rows), notes, 10, ha="left", color=GREY)
    return Drawing(figure, f"Cycles until a load can be used on an {name}. {'; '.join(said)}.")


def places_used(shares: Mapping[str, Sequence[float]]) -> Drawing:
    """The share of a card's places that have a block, against the batch: a curve per launch, from batch 1 on.

    shares: by title, the shares (0 to 1) at batch 1, 2, …
    """
    figure = Figure(figsize=(WIDTH, 3.6), dpi=110, facecolor=CARD, layout="constrained")
    axes = figure.add_subplot(facecolor=CARD)
    said = []
    for (title, line), colour in zip(shares.items(), (BLUE, ORANGE, GREEN), strict=False):
        axes.plot(range(1, len(line) + 1), [100 * share for share in line], color=colour, linewidth=1.6, label=title)
        full = [str(batch) for batch, share in enumerate(line, start=1) if share == 1]
        said.append(f"{title}: full at batch {', '.join(full[:6]) or 'none'}")
    axes.set(xlabel="batch", ylabel="places used, %", ylim=(0, 104))
    axes.set_xlim(0, max(len(line) for line in shares.values()))
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return Drawing(figure, f"The share of places with a block against the batch, in sawteeth. {'; '.join(said)}.")
