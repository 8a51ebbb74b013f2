"""A persistent kernel on the simulator for notebook 6, and what is left of the network's time for notebook 9."""

import dataclasses

import pytest
from tiers import seldom

from common.lab import left
from common.lab.phases import Trial, at_work
from common.measure.roofline import Peaks
from common.optimize.generate import Block, Tile
from common.optimize.head import Head, Linear
from common.optimize.persistent import chosen
from common.report import results, tables

BLOCK = Block(4, 4, 16, 32, 16, residual=True)
CARD = {"multiprocessors": 2, "shared_memory": 100_000}


@pytest.fixture(scope="module")
def trial():
    layers = [BLOCK, Head(16, 16, 32), Linear(32, 5)]
    plan = chosen(layers, "float32", 1, warps=(2,), clusters=(1,), **CARD)
    return Trial(dataclasses.replace(plan, rolled=False), layers, batch=1, blocks=2)


@seldom(6)
def test_a_network_in_one_launch_is_right_with_its_barriers(trial):
    report, right = trial.run()
    assert right == [True, True, True] and not report.findings


@seldom(6)
def test_without_a_barrier_there_is_a_race(trial):
    assert trial.source.count("BARRIER(counter);") == 2
    assert trial.without(1).count("BARRIER(counter);") == 1
    assert trial.run(trial.without(2))[0].findings
    with pytest.raises(ValueError, match="number must be from 1 to 2, got 3"):
        trial.without(3)


def test_warps_at_work(trial):
    rows = at_work(trial.plan, 2)
    assert [layer for layer, *_ in rows] == trial.layers
    assert all(rounds >= 1 and 0 < warps <= 4 for _, rounds, warps in rows)


def test_roofs():
    peaks = Peaks.recorded(results.load(tables.CARD))
    whole, layers = (left.roof("fp16", 256, peaks, one) for one in (True, False))
    assert whole < layers and left.roof("fp16", 1, peaks) < whole
    assert len(left.steps(1)) < len(left.steps(1, False)) == 54
    assert left.launches("fp16", 1) == len(left.steps(1)) - 1  # all blocks fused; the pool is in the last convolution
    rest = left.blocks("fp16", 256, peaks)
    assert sum(one.times for one in rest) == 17 and all(one.us > one.roof for one in rest)


def test_errors_and_agreement():
    content = results.load(tables.CARD)
    assert {name for name, *_ in left.errors(content)} >= {"ours", "cudnn"}
    apart = [change for change, _ in left.agreement(content)]
    assert apart == sorted(apart)
    assert all(">" in name or name for name, _ in left.profiled(content, "fp16", 256))


@pytest.mark.parametrize("batch", [1, 256])
def test_the_profile_is_of_the_blocks_that_the_engine_fuses(batch):
    """Notebook 06/9 has the profile stand for the engine. If this fails, profile anew: the tiles are others now."""
    profiled = {name for name, _ in left.profiled(results.load(tables.CARD), "fp16", batch) if ">" in name}
    assert profiled == {name for name, one in left.found("fp16", batch).items() if one["tile"]}


def test_wavefronts_of_a_tile():
    found = left.conflicts(Block(4, 4, 16, 32, 16), Tile(4, 4, slice=32, warps=2, vector=0, strip=4))
    assert found.wavefronts > 0 and 0 <= found.conflicts < 1
