"""Tiles of int8 blocks: ranked by counted instructions, measured, kept in a file."""

import json
from collections import Counter
from dataclasses import asdict, replace

import pytest
from tiers import seldom

from common import cuda, weights
from common.bench import tuning_int8
from common.cuda.device import as_if
from common.optimize import tiles_int8
from common.optimize.tiles_int8 import FoundInt8, Int8Block, Int8Tile, candidates, chosen_int8, key_of, remember, rule

pytestmark = pytest.mark.skipif(cuda.compute_capability() < 80, reason="fused blocks need a card of sm_80")

BLOCK = Int8Block(14, 14, 64, 384, 64)
TILE = Int8Tile(7, 14, 1, 64, strip=7, warps=4, warps_n=2)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    path = tmp_path / "tiles.json"
    monkeypatch.setattr(tiles_int8, "cache_path", lambda: path)
    monkeypatch.setattr(tiles_int8, "SHIPPED", tmp_path / "none.json")
    return path


@pytest.mark.parametrize("batch", [1, 32, 256])
def test_every_candidate_fits_and_the_first_is_the_rules(batch):
    with as_if(90, 132, 232_448):
        found = candidates(BLOCK, batch)
        assert len(found) > 100 and found[0] == rule(BLOCK, batch)
        cycles = [tiles_int8.predicted_cycles(BLOCK, tile, batch) for tile in found]
        assert cycles == sorted(cycles)
        for tile in found:
            assert BLOCK.resident(tile) >= 1 and BLOCK.shared(tile) <= 232_448 and tile.images <= batch
            assert tile.tile_h % tile.strip == 0
            if tile.chained:
                assert tile.slice // 16 % (tile.warps // tile.pixel_warps) == 0 == tile.warps % tile.pixel_warps
            else:
                assert tile.warps % (tile.slice // 16) == 0
        assert {tile.chained for tile in found} == {True, False}


@pytest.mark.parametrize("block", [Int8Block(112, 112, 3, 32, 16, 1, True, 224, 224), replace(BLOCK, stride=2)])
def test_a_stem_has_chained_tiles_and_single_warps(block):
    with as_if(90, 132, 232_448):
        found = candidates(block, 32)
        assert len(found) > 100 and all(block.shared(tile) <= 232_448 for tile in found)
        assert {tile.slides for tile in found} == ({True} if block.stem_h else {True, False})
        alone = [tile for tile in tiles_int8.shortlist(block, 32, 24) if tile.alone]
        assert alone or not block.stem_h
        assert not any(block.alone_problem(tile) or block.resident(tile) < tile.blocks for tile in alone)
        assert rule(block, 32, chained=True) == next(tile for tile in found if tile.chained)


def test_a_search_tries_tiles_that_are_not_alike():
    with as_if(90, 132, 232_448):
        short, every = tiles_int8.shortlist(BLOCK, 256, 24), candidates(BLOCK, 256)
    assert short[:2] == every[:2] and 24 <= len(short) <= 24 + 2 * 4
    assert [every.index(tile) for tile in short] == sorted(every.index(tile) for tile in short)
    shapes = [(tile.tile_h, tile.tile_w, tile.images, tile.kind) for tile in short]
    assert max(map(shapes.count, shapes)) == 2


def test_a_search_tries_every_kernel():
    """The cost model ranks the tiles of one kernel better than two kernels: the first ones of each are measured."""
    with as_if(90, 132, 232_448):
        for block, batch in ((Int8Block(56, 56, 24, 144, 24), 256), (BLOCK, 32)):
            kinds = Counter(tile.kind for tile in tiles_int8.shortlist(block, batch, 12))
            there = Counter(tile.kind for tile in candidates(block, batch))
            assert kinds.keys() == there.keys()
            assert all(kinds[kind] >= min(2, count) for kind, count in there.items())


def test_a_tile_of_bands_takes_longer_with_one_warp_less():
    """56×56: the warps that project are then the last ones; and a strip more costs the rows above it."""
    block = Int8Block(56, 56, 24, 144, 24)
    with as_if(90, 132, 232_448):
        sizes = (56, 12), (56, 10), (28, 12)
        tiles = [Int8Tile(strip, 56, 2, 144, strip, warps, bands=True) for strip, warps in sizes]
        us = [tiles_int8.predicted_cycles(block, tile, 256) for tile in tiles]
    assert us[0] < us[1] and us[0] < us[2] < 1.2 * us[0]


def test_more_pictures_do_not_take_less_time():
    with as_if(90, 132, 232_448):
        cycles = [tiles_int8.predicted_cycles(BLOCK, TILE, batch) for batch in (1, 66, 132, 264, 1056)]
    assert cycles == sorted(cycles) and cycles[-1] > 3 * cycles[1]


def test_a_measured_tile_is_chosen_for_its_batch_and_near_ones(cache):
    other = replace(TILE, warps=8)
    remember([FoundInt8(BLOCK, 256, TILE, 10.0, 30.0, 12.0), FoundInt8(BLOCK, 1, other, 2.0, 4.0, 2.0)])
    assert chosen_int8(BLOCK, 256) == chosen_int8(BLOCK, 100) == TILE and chosen_int8(BLOCK, 2) == other
    assert chosen_int8(replace(BLOCK, stride=2), 256) == rule(replace(BLOCK, stride=2), 256)
    entry = json.loads(cache.read_text())["found"]["14×14 64>384>64"]["256"]
    assert entry == {"tile": asdict(TILE), "us": 10.0, "separate_us": 30.0, "rule_us": 12.0}


def test_a_search_for_one_batch_leaves_what_is_shipped_for_others(cache):
    other = replace(TILE, warps=8)
    remember([FoundInt8(BLOCK, 1, other, 2.0, 4.0, 2.0)], tiles_int8.SHIPPED)
    remember([FoundInt8(BLOCK, 256, TILE, 10.0, 30.0, 12.0)])
    assert chosen_int8(BLOCK, 1) == chosen_int8(BLOCK, 2) == other and chosen_int8(BLOCK, 256) == TILE
    remember([FoundInt8(BLOCK, 1, TILE, 1.0, 4.0, 2.0)])
    assert chosen_int8(BLOCK, 1) == TILE


def test_separate_kernels_that_are_faster_are_chosen(cache):
    remember([FoundInt8(BLOCK, 256, TILE, 31.0, 30.0, 40.0)])
    assert chosen_int8(BLOCK, 256) is None


@pytest.mark.parametrize("change", [{"card": "another"}, {"sources": "older"}])
def test_tiles_of_another_card_or_kernel_are_left_aside(cache, change):
    remember([FoundInt8(BLOCK, 256, TILE, 10.0, 30.0, 12.0)])
    cache.write_text(json.dumps(json.loads(cache.read_text()) | change))
    assert chosen_int8(BLOCK, 256) == rule(BLOCK, 256)


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "cannot be read"), ('{"card": "x", "found": {"a": {"0": {"tile": null}}}}', "batch must be at least 1")],
)
def test_a_damaged_file_is_left_aside_with_a_warning(cache, text, words):
    cache.write_text(text)
    with pytest.warns(UserWarning, match=words):
        assert chosen_int8(BLOCK, 256) == rule(BLOCK, 256)


@seldom(6)
def test_the_search_checks_and_times(cache, capsys):
    """On the simulator with a timer of its own: the second candidate is the fastest."""
    model, seen = weights.model("digits"), []

    def timer(launches):
        seen.append(list(launches))
        return {name: 5.0 if i == 1 else 9.0 for i, name in enumerate(launches)} | {tuning_int8.SEPARATE: 7.0}

    blocks = tuning_int8.blocks_of(model, 1)
    assert Int8Block(24, 24, 16, 16, 8, expand=False) in blocks and len(blocks) == 13
    assert blocks[0] == Int8Block(24, 24, 3, 16, 8, 1, True, 48, 48)
    found = tuning_int8.search_block(blocks[-1], 1, 3, timer)
    assert (found.us, found.separate_us, found.rule_us, found.wrong) == (5.0, 7.0, 9.0, ())
    short = tiles_int8.shortlist(blocks[-1], 1, 3)
    assert found.best == short[1] and seen[0] == [*map(str, short), tuning_int8.SEPARATE]


def test_a_wrong_candidate_is_never_chosen(monkeypatch):
    block = Int8Block(3, 3, 24, 144, 24)
    right = tuning_int8.Arrays.fused
    wrong = candidates(block, 1)[0]

    def fused(self, tile):
        launch = right(self, tile)
        return (lambda: None) if tile == wrong else launch

    monkeypatch.setattr(tuning_int8.Arrays, "fused", fused)
    found = tuning_int8.search_block(block, 1, 2, lambda launches: dict.fromkeys(launches, 1.0))
    assert found.best != wrong and found.wrong == (f"{wrong}: other bits than the separate kernels",)


def test_wrong_arguments():
    model = weights.model("digits")
    with pytest.raises(ValueError, match="batch must be at least 1, got 0"):
        tuning_int8.tune(model, (0,))
    with pytest.raises(ValueError, match="tried must be at least 1, got 0"):
        tuning_int8.tune(model, tried=0)
    assert key_of(Int8Block(14, 14, 96, 576, 160, 2)) == "14×14 96>576>160 stride 2"
