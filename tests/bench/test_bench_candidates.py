"""The suite "candidates" and the oracle made of its records: what is timed, what is recorded, what a search may ask."""

import dataclasses
import io
import itertools
import statistics

import pytest
from rich.console import Console
from tiers import seldom

from common import cuda
from common.bench import candidates as suite
from common.cuda.device import as_if
from common.cuda.graphs import NoGpu
from common.lab import oracle
from common.optimize import search
from common.optimize.generate import Block, Tile
from common.optimize.tiles import Problem
from common.report import results

SMALL = Problem(Block(7, 7, 16, 96, 16, residual=True), 2, "float32")


@pytest.fixture
def h200():
    with as_if(90, 132, 232_448):
        yield


def times(launches):
    return {name: 10.0 if name == "unfused" else 5.0 + int(name) for name in launches}


def test_the_ranked_first_and_a_random_sample_of_the_others(h200):
    problem = Problem(suite.BLOCKS["14×14"], 256, "float16")
    found, of = suite.chosen(problem, 5, 7)
    assert len(found) == 12 < of and [one.order for one in found[:5]] == [1, 2, 3, 4, 5]
    assert all(one.drawn and one.order > 5 for one in found[5:]) and not any(one.drawn for one in found[:5])
    assert found == suite.chosen(problem, 5, 7)[0], "the seed draws the same again"
    assert len({suite.text_of(one.tile) for one in found}) == 12
    assert all(suite.tile_of(suite.text_of(one.tile)) == one.tile for one in found)
    few, of = suite.chosen(SMALL, 3, 10**9)
    assert len(few) == of, "no more than there are"


@pytest.fixture
def content(tmp_path):
    options = suite.Options(ranked=2, random=3)
    records, right = suite.measure(SMALL, "fp32", options, Console(file=io.StringIO()), times)
    assert right and len(records) == 6
    results.save(tmp_path / "card", "run", {"card": "a card", "date": "2026-01-01"}, records)
    return results.load(tmp_path / "card")


@seldom(6)
def test_records_come_back_as_an_oracle(content):
    [case] = oracle.cases(content)
    assert case == ("7×7 16>96>16 +residual", "fp32", 2)
    one = oracle.recorded(*case, content)
    assert len(one.tiles) == 5 and len(one.drawn) == 3 and one.ranking[0] == one.tiles[0]
    assert [one.ask(tile) for tile in reversed(one.ranking)] == [9.0, 8.0, 7.0, 6.0, 5.0]
    assert one.asked == 5 and one.curve() == [9.0, 8.0, 7.0, 6.0, 5.0] and one.best == 5.0
    one.ask(one.tiles[0])
    assert one.asked == 5, "asked before"
    one.forget()
    assert one.asked == 0 and one.curve() == []
    assert one.separate_us == 10.0 and one.of > 5


def test_neighbours_in_a_sample_differ_in_several_fields():
    """Notebook 06/8 says so of the tiles that hill climbing asks for."""
    for batch in (1, 256):
        one = oracle.of(suite.BLOCKS["14×14"], "fp16", batch).sample()
        fields = [field.name for field in dataclasses.fields(Tile)]
        apart = [
            sum(getattr(tile, field) != getattr(other, field) for field in fields)
            for tile in one.tiles
            for other in one.near(tile)
        ]
        assert statistics.median(apart) >= 3


def test_a_new_run_of_a_block_replaces_all_of_its_tiles(content):
    replaced = suite.driver.same(content.suite("candidates"), "case", "precision", "batch")
    assert replaced({"case": str(SMALL.block), "precision": "fp32", "batch": 2, "implementation": "tile_h=1 tile_w=1"})
    assert not replaced({"case": str(SMALL.block), "precision": "fp32", "batch": 1, "implementation": "tile_h=1"})


def test_the_text_of_a_tile():
    tile = suite.Tile(7, 14, slice=48, blocks=3, arithmetic="halves", chained=True)
    assert suite.text_of(tile) == "tile_h=7 tile_w=14 slice=48 blocks=3 arithmetic=halves chained=True"
    assert suite.tile_of(suite.text_of(tile)) == tile


def test_what_is_not_recorded_is_refused(content):
    with pytest.raises(
        ValueError, match=r"must be one of 7×7 16>96>16 \+residual, fp32, batch 2; got 7×7, fp16, batch 2"
    ):
        oracle.recorded("7×7", "fp16", 2, content)
    one = oracle.recorded(*oracle.cases(content)[0], content)
    with pytest.raises(ValueError, match="tile must be one of this oracle's 5 tiles"):
        one.ask(suite.Tile(1, 1))
    with pytest.raises(ValueError, match="ranked must be at least 1 and random at least 0, got 0 and 1"):
        suite.Options(ranked=0, random=1)
    with pytest.raises(ValueError, match="block must be one of"):
        suite.Options(blocks=("3×3",))


def test_an_oracle_that_asks_the_card():
    tiles = [one.tile for one in suite.chosen(SMALL, 3, 0)[0]]
    counted = itertools.count(1)

    def timer(launches):
        return {name: float(next(counted)) if name != "unfused" else 0.0 for name in launches}

    one = oracle.of_this_card(SMALL, tiles, timer)
    assert [one.ask(tile) for tile in tiles] == [1.0, 2.0, 3.0] and one.ask(tiles[1]) == 2.0 and one.best == 1.0
    if cuda.backend() != "gpu":
        with pytest.raises(NoGpu):
            oracle.of_this_card(SMALL, tiles)


def test_wrong_tiles_are_named_and_not_recorded(monkeypatch):
    monkeypatch.setitem(search.TOLERANCES, "float32", 0.0)
    said = io.StringIO()
    options = suite.Options(ranked=2, random=0)
    records, right = suite.measure(SMALL, "fp32", options, Console(file=said, width=200), times)
    assert not right and [r["implementation"] for r in records] == [suite.UNFUSED]
    assert said.getvalue().count("wrong") == 2


def test_an_oracle_of_computed_times():
    block = suite.BLOCKS["28×28"]
    one = oracle.of(block, "fp16", 256, results.Results())
    assert "nothing was measured" in one.source and oracle.COMMAND in one.source
    assert len(set(one.tiles)) == len(one.tiles) > 300 and not one.ranking
    assert all(oracle.Geometry(block, tile, 2).problem(232_448) is None for tile in one.tiles)
    best = min(one.tiles, key=one.ask)
    assert one.best == oracle.cost.predicted(block, best, 2, 256, 132, 232_448)
    with pytest.raises(ValueError, match="precision must be one of fp32, fp16, got 'int8'"):
        oracle.computed(block, "int8", 1)


def test_what_is_recorded_goes_first(content):
    assert "a card" in oracle.of(SMALL.block, "fp32", 2, content).source
