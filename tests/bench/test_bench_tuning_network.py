"""The search of tiles within a network: what it keeps, what it never keeps, and what it writes."""

import csv
import dataclasses
import io
import json
import math
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console
from tiers import long

from common import cuda, topology, weights
from common.bench import tuning_in_network, tuning_network, tuning_network_int8
from common.bench.candidates import UNFUSED, text_of, tile_of
from common.bench.tuning_int8 import TimedInt8
from common.bench.tuning_network import FAILED, KEPT, SLOWER, WRONG, Trial, Trials, candidates, descend, read_times
from common.bench.tuning_network_int8 import FASTEST, Alone, Int8Trials
from common.cuda.graphs import NoGpu
from common.network import Network
from common.optimize import search, tiles, tiles_int8
from common.optimize.generate import Block, Geometry, Tile
from common.optimize.tiles import Found, Problem
from common.optimize.tiles_int8 import Int8Block, Int8Tile, key_of

pytestmark = pytest.mark.skipif(cuda.compute_capability() < 80, reason="fused blocks need a card of sm_80")

A, B = Block(14, 14, 64, 384, 64, residual=True), Block(7, 7, 160, 960, 160, residual=True)
LARGE, SMALL, OTHER = (Tile(7, 7, slice=16 * warps, warps=warps) for warps in (12, 4, 8))


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setattr(tiles, "cache_path", lambda: tmp_path / "tiles.json")
    monkeypatch.setattr(tiles, "_tables", {})
    return tmp_path / "tiles.json"


@pytest.fixture
def said():
    return Console(file=io.StringIO(), width=220, highlight=False)


# The descent, on a network that is a function of its tiles


class Program:
    def __init__(self, tiles):
        self.tiles = tiles

    def launch(self):
        raise AssertionError("nothing is launched: the timer looks at the tiles")


class Stub:
    """Two blocks, A twice; as Trials."""

    dtype, tolerance = "fp16", 4e-3

    def __init__(self, wrong=(), failing=()):
        self.tiles, self.used = {A: LARGE, B: LARGE}, Counter()
        self.wrong, self.failing, self.made = wrong, failing, 0

    def program(self, changes):
        self.made += 1
        if set(changes.values()) & set(self.failing):
            raise RuntimeError("too many\nresources")
        self.used = Counter({A: 2, B: 1})
        return Program(self.tiles | changes)

    def error(self, program):
        return math.nan if set(program.tiles.values()) & set(self.wrong) else 0.0

    def by_time(self, used):
        return [A, B]


def timer_of(us):
    def timer(launches):
        return {name: us(launch.__self__.tiles) for name, launch in launches.items()}

    return timer


ALONE = {LARGE: 10.0, OTHER: 11.0, SMALL: 10.2, None: 30.0}


def together(made):
    """A block of many threads holds the next one up."""
    return 2 * ALONE[made[A]] + ALONE[made[B]] + (5.0 if made[A] == LARGE else 0.0)


def found(stub, us=together, some=(LARGE, SMALL, OTHER, None), **options):
    return list(descend(stub, lambda block: some, timer_of(us), **options))


def test_what_is_fastest_in_the_network_is_kept():
    stub = Stub()
    trials = found(stub)
    assert stub.tiles == {A: SMALL, B: LARGE}
    (kept,) = [trial for trial in trials if trial.verdict == KEPT]
    assert (kept.block, kept.tile, kept.before) == (A, SMALL, LARGE)
    assert kept.before_us == 35.0 and kept.us == pytest.approx(30.4)
    # a pass without a win ends it, and what was far slower is not tried in that
    assert [(trial.block, trial.tile) for trial in trials].count((A, None)) == 1
    assert all(trial.verdict == SLOWER for trial in trials[1:])


def test_a_tile_that_is_wrong_or_fails_is_never_kept():
    stub = Stub(wrong=(SMALL,), failing=(OTHER,))
    trials = found(stub, lambda made: 1.0 if SMALL in made.values() else together(made))
    assert stub.tiles == {A: LARGE, B: LARGE}
    verdicts = {trial.tile: (trial.verdict, trial.more) for trial in trials}
    assert verdicts[SMALL] == (WRONG, "a relative error of nan") and verdicts[OTHER] == (FAILED, "too many resources")
    assert len(trials) == 6  # none of them a second time


def test_separate_kernels_are_a_candidate():
    stub = Stub()
    found(stub, lambda made: sum(tile is not None for tile in made.values()))
    assert stub.tiles == {A: None, B: None}


@pytest.mark.parametrize(("gains", "verdict"), [((0.01, 0.01), KEPT), ((0.01, 0.001), SLOWER), ((-0.01,), SLOWER)])
def test_a_win_has_to_be_seen_twice(gains, verdict):
    """Beside the best, which is measured anew each time."""
    left = list(gains)

    def timer(launches):
        return {"best": 100.0, "tried": 100.0 * (1 - left.pop(0)) if len(launches) == 2 else 90.0}

    trial = next(descend(Stub(), lambda block: [SMALL], timer))
    assert trial.verdict == verdict and not left


def test_a_card_that_grows_slower_does_not_end_the_search():
    """Each measurement is 0.2 % longer than the last: the best is measured again beside what seems a little slower."""
    stub, slower = Stub(), [1.0]

    def timer(launches):
        slower[0] *= 1.002
        return {name: slower[0] * together(launch.__self__.tiles) for name, launch in launches.items()}

    list(descend(stub, lambda block: (LARGE, OTHER, None, SMALL), timer))
    assert stub.tiles == {A: SMALL, B: LARGE}


def test_the_time_is_limited():
    stub = Stub()
    assert found(stub, seconds=0) == [] and stub.made == 1


def test_what_the_network_no_longer_has_is_not_tried():
    """Without a tile for A, B is what is left of it."""
    stub = Stub()
    stub.program = lambda changes: (
        setattr(stub, "used", Counter({A: 1} if (stub.tiles | changes)[A] else {A: 1, B: 1}))
        or Program(stub.tiles | changes)
    )
    trials = found(stub)
    assert {trial.block for trial in trials} == {A}


def test_programs_are_timed_in_turn_after_a_short_warm_up(monkeypatch):
    seen = {}

    def compare(benchmarks, *, samples):
        seen.update({name: (benchmark.calls[0](), benchmark.warm_up_us) for name, benchmark in benchmarks.items()})
        return {
            name: SimpleNamespace(median_us=benchmark.calls[0]() + samples) for name, benchmark in benchmarks.items()
        }

    monkeypatch.setattr(tuning_network.timing, "compare", compare)
    found = tuning_network.medians({"a": lambda: 100.0, "b": lambda: 200.0})
    assert found == {"a": 100.0 + tuning_network.SAMPLES, "b": 200.0 + tuning_network.SAMPLES}
    assert seen == {"a": (100.0, tuning_network.WARM_UP_US), "b": (200.0, tuning_network.WARM_UP_US)}


# Candidates


def test_candidates_differ_in_threads_and_shared_memory(monkeypatch, tmp_path):
    problem = Problem(A, 8, "float16")
    ranking = search.most_promising(problem, 12)
    path = tmp_path / "candidates.csv"
    rows = [
        f"run,{A},{UNFUSED},fp16,8,9.0",
        *(f"run,{A},{text_of(tile)},fp16,8,{5 + 0.1 * i}" for i, tile in enumerate(ranking)),
        f"run,{A},{text_of(dataclasses.replace(ranking[0], project_n=2))},fp16,8,99.0",
        f"run,{B},{text_of(ranking[1])},fp16,8,1.0",
    ]
    path.write_text("\n".join(["run,case,implementation,precision,batch,us", *rows]) + "\n", encoding="utf-8")
    times = read_times(path)
    assert len(times["float16", str(A)]) == len(ranking) + 1
    tiles.remember([Found(problem, OTHER, 1.0, 2.0, 1.0), Found(Problem(A, 64, "float16"), SMALL, 1.0, 2.0, 1.0)])
    made = candidates(problem, times, 6)
    assert made[-1] is None and len(made) == 7 and len(set(made)) == 7
    assert made[:2] == [OTHER, SMALL]  # in use at this batch size, and at another
    alike = [(tile.warps, Geometry(A, tile, 2).shared // 16_384) for tile in made[:-1]]
    assert len(set(alike)) == len(alike) and ranking[0] in made
    assert all(tile.images <= 8 for tile in made[:-1])
    # without times, from the model; pairs of halves for floats
    halves = candidates(Problem(A, 8, "float32", "halves"), {}, 4)
    assert len(halves) == 5 and all(tile.arithmetic == "halves" for tile in halves[:-1])


# A network


def model(size=32):
    return topology.write_onnx(*weights.network("digits", size), dynamic_batch=True)


def test_trials_have_the_tiles_that_networks_use():
    trials = Trials(model(), "fp16", 1)
    blocks = trials.blocks({})
    first = dict(trials.tiles)
    assert blocks == list(first) and sum(trials.used.values()) == 17
    plan = Network(model(), dtype="fp16", layout="NHWC", optimize="latency").plan()
    assert {step.block: step.tile for step in plan.steps if hasattr(step, "block")} == first
    more = trials.blocks(dict.fromkeys(blocks))
    assert {block.expand for block in set(more) - set(blocks)} == {"none"} and set(blocks) < set(more)
    assert first.items() < trials.tiles.items()  # a change is for one program
    assert len(trials.by_time(trials.used)) == len(more)
    assert Trials(model(), "fp32", 32).problem(blocks[0]) == Problem(blocks[0], 32, "float32", "halves")


def test_the_next_kernel_is_let_begin_earlier_or_later(monkeypatch):
    """The tile of now is tried with `early` the other way round, and every other tile with `early` as it has it."""
    trials = Trials(model(), "fp16", 1)
    block = next(b for b in trials.blocks({}) if trials.tiles[b] is not None)
    monkeypatch.setattr(Problem, "programmatic", True)  # as on a card from sm_90 on
    now, other = trials.tiles[block], dataclasses.replace(trials.tiles[block], warps=3)
    monkeypatch.setattr(tuning_network, "candidates", lambda problem, times, most: [other, None])
    some = trials.compiled({}, 1)
    early = dataclasses.replace(now, early=True)
    assert not now.early and some(block) == [early, other, None]
    trials.tiles[block] = early
    assert some(block) == [now, dataclasses.replace(other, early=True), None]
    trials.tiles[block] = None
    assert some(block) == [other, None]
    assert tile_of(text_of(early)) == early and "begin first" in tiles.describe(early)


@long
def test_a_search_on_the_simulator(cache, said, monkeypatch, tmp_path):
    """With a stand-in for the clock: what it finds is what Network uses; a tile that leaves a gap is wrong."""
    blocks = Trials(model(), "fp16", 2).blocks({})
    better, broken = blocks[3], blocks[5]
    other = {block: candidates(Problem(block, 2, "float16"), {}, 2)[0] for block in (better, broken)}

    def some(problem, times, most):
        return [other[problem.block]] if problem.block in other else []

    def timer(launches):
        if "unfused" in launches:
            return {name: 3.0 for name in launches}
        return {name: us(launch.__self__.steps) for name, launch in launches.items()}

    def us(steps):
        used = {step.block: step.tile for step in steps if hasattr(step, "block")}
        return 100.0 - 10.0 * sum(used.get(block) == tile for block, tile in other.items())

    def program(self, changes, made=Trials.program):
        result = made(self, changes)
        if changes.get(broken) == other[broken]:
            result._launches = result._launches[:-1]
        return result

    monkeypatch.setattr(tuning_network, "candidates", some)
    monkeypatch.setattr(Trials, "program", program)
    kept, rows = tmp_path / "kept.json", tmp_path / "trials.csv"
    trials = tuning_in_network.tune(model(), (2,), ("fp16",), 600, 2, kept, None, rows, said, timer)
    assert {trial.block: trial.verdict for trial in trials} == {better: KEPT, broken: WRONG}
    for path in (cache, kept):
        found = json.loads(path.read_text(encoding="utf-8"))["found"]["float16"]
        (entry,) = [batches["2"] for batches in found.values()]
        assert Tile(**entry["tile"]) == other[better] and entry["us"] == entry["unfused_us"] == 3.0
        assert np.isfinite(entry["predicted_us"])
    written = list(csv.DictReader(rows.open(encoding="utf-8")))
    assert [(row["block"], row["tile"]) for row in written] == [(str(t.block), text_of(t.tile)) for t in trials]
    assert {row["verdict"].split()[0] for row in written} == {KEPT, WRONG}
    assert "100.00 → 90.00 µs" in said.file.getvalue() and "1 kept, 1 wrong" in said.file.getvalue()
    again = Trials(model(), "fp16", 2)
    again.blocks({})
    assert again.tiles[better] == other[better] != again.tiles[broken]


def test_what_cannot_be_searched(said, tmp_path):
    with pytest.raises(ValueError, match="dtype must be one of fp32, fp16, int8, got 'tf32'"):
        tuning_in_network.tune(model(), (1,), ("tf32",), console=said)
    with pytest.raises(ValueError, match="the tiles of int8 have a file of their own"):
        tuning_in_network.tune(model(), (1,), ("int8", "fp16"), save_to=tmp_path / "tiles.json", console=said)
    with pytest.raises(ValueError, match="batch must be at least 1, got 0"):
        tuning_in_network.tune(model(), (0,), ("fp16",), console=said)
    if cuda.backend() != "gpu":
        with pytest.raises(NoGpu):
            tuning_in_network.tune(model(), (1,), ("fp16",), console=said)


# A quantized network


def test_candidates_in_int8_are_the_fastest_alone_and_separate_kernels():
    tiles = [Int8Tile(7, 7, warps=n) for n in range(1, 10)]
    us = {tile: 10.0 + i for i, tile in enumerate(reversed(tiles))}  # the last one is the fastest
    close = list(us)[:3]  # of the nine, those within a quarter of it
    assert Alone.of(TimedInt8(us, 50.0, 10.0)).candidates == [*close, None]
    assert Alone.of(TimedInt8(us, 11.5, 10.0)).candidates == [*close[:2], None, close[2]]
    many = {tile: 10.0 + i / 100 for i, tile in enumerate(tiles)}
    assert Alone.of(TimedInt8(many, 50.0, 10.0)).candidates == [*tiles[:FASTEST], None]
    assert Alone.of(None).candidates == [None]


@pytest.mark.parametrize("timed", [None, TimedInt8({Int8Tile(7, 7, warps=4): 5.0}, 6.0, 5.0)])
def test_a_time_of_another_tile_is_never_kept(monkeypatch, tmp_path, timed):
    """Separate kernels in place of a tile that is wrong alone: nothing is written, and the reason told."""
    block, wrong = Int8Block(7, 7, 160, 960, 160), Int8Tile(7, 7, warps=8)
    monkeypatch.setattr(tiles_int8, "cache_path", lambda: tmp_path / "tiles.json")
    trials = Int8Trials.__new__(Int8Trials)
    trials.batch, trials._alone = 1, {block: Alone.of(timed)}
    (why,) = trials.keep(Trial(block, None, wrong, 1.0, 2.0, KEPT), None)
    assert "other bits than the separate kernels" in why and not (tmp_path / "tiles.json").exists()


def test_a_search_in_int8_begins_with_the_tiles_of_its_batch_size(monkeypatch):
    """A quantized network is first rewritten for one picture, whatever the batch."""
    seen = []
    monkeypatch.setattr(tuning_network_int8, "chosen_int8", lambda block, batch: seen.append(batch))
    trials = Int8Trials(model(), 4, 1)
    trials.blocks({})
    assert len(trials.tiles) == len(seen) > 5 and set(seen) == {4}


@long
def test_a_search_in_int8_on_the_simulator(said, monkeypatch, tmp_path):
    """With a stand-in for the clock: separate kernels are kept though slower alone; other bits are wrong."""
    cache, kept, rows = (tmp_path / name for name in ("tiles.json", "kept.json", "trials.csv"))
    monkeypatch.setattr(tiles_int8, "cache_path", lambda: cache)
    first = Int8Trials(model(), 1, 1)
    blocks = first.blocks({})
    assert sum(first.used.values()) == 17 and all(isinstance(block, Int8Block) for block in blocks)
    split, broken = blocks[-2], blocks[4]
    other = next(tile for tile in tiles_int8.shortlist(broken, 1, 3) if tile != first.tiles[broken])

    def timed(block, batch, tried, timer, further):
        tiles = {first.tiles.get(block, further[0]): 5.0} | ({other: 6.0} if block == broken else {})
        return TimedInt8(tiles, 6.0 if block == split else 50.0, 5.0)

    def timer(launches):
        return {name: us(launch.__self__.steps) for name, launch in launches.items()}

    def us(steps):
        fused = {step.block: step.tile for step in steps if hasattr(step, "block")}
        return 100.0 - 10.0 * (split not in fused) - 10.0 * (fused.get(broken) == other)

    def program(self, changes, made=Int8Trials.program):
        result = made(self, changes)
        if changes.get(broken) == other:
            result._launches = result._launches[:-1]
        return result

    monkeypatch.setattr(tuning_network_int8, "time_tiles", timed)
    monkeypatch.setattr(Int8Trials, "program", program)
    trials = tuning_in_network.tune(model(), (1,), ("int8",), 600, 1, kept, None, rows, said, timer)
    verdicts = {(trial.block, trial.tile): trial.verdict for trial in trials}
    assert verdicts[split, None] == KEPT and verdicts[broken, other] == WRONG
    assert all(verdict != KEPT for key, verdict in verdicts.items() if key != (split, None))
    for path in (cache, kept):
        found = json.loads(path.read_text(encoding="utf-8"))["found"]
        assert found == {key_of(split): {"1": {"tile": None, "us": 5.0, "separate_us": 6.0, "rule_us": 5.0}}}
    written = list(csv.DictReader(rows.open(encoding="utf-8")))
    assert {row["precision"] for row in written} == {"int8"} and written[0]["block"] in map(key_of, blocks)
    assert f"100.00 → 90.00 µs: {key_of(split)}:" in said.file.getvalue()
    assert "→ separate kernels" in said.file.getvalue()
    assert tiles_int8.chosen_int8(split, 1) is None  # what networks use from now on
