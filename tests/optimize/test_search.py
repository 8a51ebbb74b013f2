"""Which tile: the rule, the search, what it keeps on disk, and what is shipped."""

import dataclasses
import json
import math
import os
import warnings
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from test_inverted_residual import close, reference
from tiers import examples, seldom

from common import cuda
from common.cuda.graphs import NoGpu
from common.optimize import cost, search, tiles
from common.optimize.generate import Block, Geometry, Tile
from common.optimize.search import Arrays
from common.optimize.tiles import Found, Problem, chosen, remember, rule

pytestmark = pytest.mark.skipif(cuda.compute_capability() < 80, reason="fused blocks need a card of sm_80")

BLOCK = Block(9, 8, 8, 32, 16, residual=False)
OTHER = Block(5, 4, 16, 48, 16, residual=True)
TILE = Tile(3, 4, slice=32, warps=2)


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    """An empty cache, and no memory of another one."""
    monkeypatch.setattr(tiles, "cache_path", lambda: tmp_path / "tiles.json")
    monkeypatch.setattr(tiles, "SHIPPED", tmp_path / "shipped.json")
    monkeypatch.setattr(tiles, "_tables", {})
    return tmp_path / "tiles.json"


def found(block=BLOCK, batch=1, tile=TILE, dtype="float16"):
    return Found(Problem(block, batch, dtype), tile, 2.0, 3.0, 1.5, tile or TILE)


# The rule

random_blocks = st.builds(
    lambda h, w, c, hidden, o, stride, kind, residual: Block(
        h, w, 3 if kind == "stem" else 8 * c if kind == "pointwise" else 8 * hidden, 8 * hidden, 4 * o, stride, kind,
        (2 * h - h % 2, 8 * math.ceil(w / 4)) if kind == "stem" else (0, 0), residual=residual,
    ),
    st.integers(1, 20), st.integers(1, 20), st.integers(1, 8), st.integers(1, 24), st.integers(1, 16),
    st.sampled_from([1, 2]), st.sampled_from(["pointwise", "none", "stem"]), st.booleans(),
)  # fmt: skip


def fitting(block):
    """A stem's hidden size is what its image says."""
    if block.expand != "stem":
        return block
    h, w = block.image
    return Block(
        (h - 1) // 2 + 1, (w - 1) // 2 + 1, 3, block.hidden, block.outputs, block.stride, "stem", block.image,
        block.bounds, block.residual,
    )  # fmt: skip


@settings(max_examples=examples(60))
@given(random_blocks, st.sampled_from([1, 2, 7, 300]), st.sampled_from([2, 4]))
def test_the_rules_tile_is_possible(block, batch, itemsize):
    block = fitting(block)
    tile = rule(block, batch, itemsize)
    assert tile is not None and tile.images <= batch
    assert Geometry(block, tile, itemsize).problem(cuda.shared_memory()) is None
    assert rule(block, batch, itemsize) is tile  # remembered
    assert cuda.compute_capability() >= 90 or tile.split == 1


@seldom(6)
@settings(max_examples=examples(6), phases=(Phase.explicit, Phase.generate))
@given(random_blocks, st.integers(1, 3), st.sampled_from(["float32", "float16"]))
def test_the_rules_tile_computes_the_right_thing(block, batch, dtype):
    block = dataclasses.replace(fitting(block), residual=False)  # whose shape would have to be that of the output
    problem = Problem(block, batch, dtype)
    arrays = Arrays(problem)
    arrays.out[...] = np.nan
    arrays.launch(problem, rule(block, batch, problem.itemsize))()
    assert arrays.error() <= search.TOLERANCES[dtype]


def test_a_block_whose_weights_are_too_many_has_no_tile():
    assert rule(Block(7, 7, 4096, 4096, 4096), 1, 4) is None
    assert chosen(Block(7, 7, 4096, 4096, 4096), 1, "float32") is None


def test_arrays_of_more_elements_than_an_int_counts_have_no_tile():
    assert rule(BLOCK, 2**31 // (8 * 9 * 8) + 1, 2) is None and chosen(BLOCK, 2**22, "float16") is None


# What is kept on disk


def test_what_was_found_is_chosen(cache):
    assert chosen(BLOCK, 1, "float16") == rule(BLOCK, 1, 2)
    assert remember([found()]) == cache
    assert chosen(BLOCK, 1, "float16") == TILE
    assert chosen(BLOCK, 1, "float32") == rule(BLOCK, 1, 4) and chosen(OTHER, 1, "float16") == rule(OTHER, 1, 2)
    content = json.loads(cache.read_text())
    assert set(content) == {"card", "driver", "sources", "found"}
    assert content["found"]["float16"][str(BLOCK)]["1"] == {
        "tile": asdict(TILE), "us": 2.0, "unfused_us": 3.0, "predicted_us": 1.5,
    }  # fmt: skip
    assert [path.name for path in cache.parent.iterdir()] == [cache.name]


def test_separate_kernels_may_be_what_was_found():
    remember([found(tile=None)])
    assert chosen(BLOCK, 1, "float16") is None


def test_the_nearest_batch_counts():
    """By their ratio; of two equally near ones the larger."""
    of_batch = {1: TILE, 4: Tile(1, 4, slice=32, warps=2), 64: Tile(3, 8, slice=32, warps=2)}
    remember(found(batch=batch, tile=tile) for batch, tile in of_batch.items())
    for batch, nearest in ((1, 1), (2, 4), (3, 4), (15, 4), (16, 64), (17, 64), (1000, 64)):
        assert chosen(BLOCK, batch, "float16") == of_batch[nearest], batch


def test_a_tile_that_does_not_fit_is_left_out():
    """As one that takes several images, for a batch of one."""
    several = Tile(9, 8, images=4, slice=32, warps=2)
    remember([found(batch=8, tile=several), found(batch=64, tile=TILE)])
    assert chosen(BLOCK, 8, "float16") == several and chosen(BLOCK, 1, "float16") == TILE


def test_more_is_added_and_the_same_replaced():
    remember([found(), found(OTHER)])
    other = Tile(1, 4, slice=32, warps=2)
    remember([found(tile=other)])
    assert chosen(BLOCK, 1, "float16") == other and chosen(OTHER, 1, "float16") == TILE


def test_a_search_for_another_batch_does_not_replace_what_is_shipped_for_this_one():
    small, large = Tile(1, 4, slice=32, warps=2), TILE
    remember([found(batch=1, tile=small)], tiles.SHIPPED)
    remember([found(batch=256, tile=large)])
    assert chosen(BLOCK, 1, "float16") == chosen(BLOCK, 2, "float16") == small
    assert chosen(BLOCK, 256, "float16") == large
    remember([found(batch=1, tile=large)])
    assert chosen(BLOCK, 1, "float16") == large


BROKEN = {
    "cut": '{"card": "the simul',
    "no-json": "tiles",
    "no-table": "[1, 2]",
    "nothing-found": '{"card": "the simulator"}',
    "no-such-dtype": '{"card": "x", "found": {"int8": {}}}',
    "no-tile": '{"card": "x", "found": {"float16": {"b": {"1": {"us": 1}}}}}',
    "no-such-field": '{"card": "x", "found": {"float16": {"b": {"1": {"tile": {"tile_h": 1, "colour": 2}}}}}}',
    "no-arithmetic": '{"card": "x", "found": {"float32": {"b": {"1": {"tile": {"tile_h": 1, "tile_w": 2,'
    ' "arithmetic": "int8"}}}}}}',
    "no-number": '{"card": "x", "found": {"float16": {"b": {"1": {"tile": {"tile_h": "1", "tile_w": 2}}}}}}',
    "no-batch": '{"card": "x", "found": {"float16": {"b": {"one": {"tile": null}}}}}',
    "bytes": b"\xff\xfe\x00",
    "nested": 100_000 * "[",
    "zero": '{"card": "x", "found": {"float16": {"b": {"1": {"tile": {"tile_h": 1, "tile_w": 0}}}}}}',
    "unprintable": '{"card": "x", "found": {"float16": {"b": {"1": {"tile": {"\\ud800": 1}}}}}}',
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_a_broken_file_is_left_aside_with_a_word(cache, text):
    cache.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.warns(UserWarning, match="cannot be read and is left aside"):
        assert chosen(BLOCK, 1, "float16") == rule(BLOCK, 1, 2)
    with warnings.catch_warnings():  # once
        warnings.simplefilter("error")
        chosen(BLOCK, 1, "float16")
    remember([found()])  # and is replaced
    assert chosen(BLOCK, 1, "float16") == TILE


@pytest.mark.parametrize("key", ["card", "driver", "sources"])
def test_what_was_found_elsewhere_is_left_aside_with_a_word(cache, key):
    remember([found()])
    cache.write_text(json.dumps(json.loads(cache.read_text()) | {key: "another"}))
    with pytest.warns(UserWarning, match=f"tuned for {key} 'another', here .*python -m common tune"):
        assert chosen(BLOCK, 1, "float16") == rule(BLOCK, 1, 2)
    remember([found(OTHER)])
    assert chosen(BLOCK, 1, "float16") == rule(BLOCK, 1, 2) and chosen(OTHER, 1, "float16") == TILE


def test_a_changed_header_is_another_source(tmp_path, monkeypatch):
    """Kernels that were tuned with one text of vec.h are others with another."""
    digest = tiles.sources.__wrapped__
    before = digest()
    for path in tiles.INCLUDE.glob("*.h"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(tiles, "INCLUDE", tmp_path)
    assert digest() == before
    with open(tmp_path / "vec.h", "a") as file:
        file.write("// more\n")
    assert digest() != before


def test_a_file_is_written_as_a_whole_or_not_at_all(cache, monkeypatch):
    remember([found()])
    before = cache.read_text()
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("no space")))
    with pytest.raises(OSError, match="no space"):
        remember([found(OTHER)])
    assert cache.read_text() == before


def test_what_is_shipped_counts_on_a_card_of_its_name(cache, monkeypatch):
    remember([found(tile=Tile(1, 4, slice=32, warps=2)), found(OTHER)], tiles.SHIPPED)
    content = json.loads(tiles.SHIPPED.read_text())
    content |= {"driver": "older", "sources": "before"}
    tiles.SHIPPED.write_text(json.dumps(content))
    assert chosen(BLOCK, 1, "float16") == Tile(1, 4, slice=32, warps=2)
    remember([found()])  # what was tuned here comes first
    assert chosen(BLOCK, 1, "float16") == TILE and chosen(OTHER, 1, "float16") == TILE
    tiles.SHIPPED.write_text(json.dumps(content | {"card": "another"}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a card of another name is nothing to tell
        assert chosen(OTHER, 1, "float16") == rule(OTHER, 1, 2)


def test_the_shipped_file_can_be_read():
    from importlib import resources

    path = resources.files("common.optimize") / "tiles.json"
    content = tiles._read(path)
    assert set(content["found"]) == set(tiles.KINDS)
    for of_blocks in content["found"].values():
        assert of_blocks
        for batches in of_blocks.values():
            assert all(entry["us"] > 0 for entry in batches.values())


# The search


def timer(times):
    """Times by a function of the tile's number, "unfused" among them; what was launched is noted."""
    seen = []

    def measure(launches):
        seen.append(list(launches))
        for launch in launches.values():
            launch()
        return {name: times(name) for name in launches}

    measure.seen = seen
    return measure


@seldom(6)
def test_the_fastest_is_found():
    measure = timer(lambda name: {"unfused": 10.0, "1": 4.0}.get(name, 5.0))
    result = search.search(Problem(BLOCK, 2, "float16"), tried=3, timer=measure)
    names = measure.seen[0]
    assert names[0] == "unfused" and {"0", "1", "2"} <= set(names) and len(names) <= 5  # the rule's tile is one of them
    assert result.tile == result.best and (result.us, result.unfused_us, result.gain) == (4.0, 10.0, 2.5)
    assert result.predicted_us > 0 and not result.wrong and not result.failed
    remember([result])
    assert chosen(BLOCK, 2, "float16") == result.tile


def test_a_search_for_pairs_of_halves_has_a_kind_of_its_own():
    measure = timer(lambda name: {"unfused": 10.0, "1": 4.0}.get(name, 5.0))
    result = search.search(Problem(BLOCK, 2, "float32", "halves"), tried=2, timer=measure)
    assert result.tile is not None and result.tile.arithmetic == "halves" and not result.wrong and not result.failed
    remember([result])
    assert chosen(BLOCK, 2, "float32", "halves") == result.tile
    assert chosen(BLOCK, 2, "float32") == rule(BLOCK, 2, 4)


def test_without_a_search_for_pairs_of_halves_the_tile_is_that_for_tf32():
    tile = dataclasses.replace(TILE, arithmetic="tf32x3")
    remember([found(dtype="float32", tile=tile), found(OTHER, dtype="float32", tile=None)])
    assert chosen(BLOCK, 1, "float32", "halves") == dataclasses.replace(tile, arithmetic="halves")
    assert chosen(OTHER, 1, "float32", "halves") is None


def test_results_of_an_arithmetic_are_for_floats_with_that_name(cache):
    halves = dataclasses.replace(TILE, arithmetic="halves")
    remember([found(dtype="float32", tile=halves)])
    with pytest.warns(UserWarning, match="a tile's arithmetic for float32 must be tf32x3, got 'halves'"):
        chosen(BLOCK, 1, "float32")


def test_separate_kernels_that_are_faster_win():
    result = search.search(Problem(BLOCK, 1, "float32"), tried=2, timer=timer(lambda n: 1.0 if n == "unfused" else 2.0))
    assert result.tile is None and result.best is not None and result.gain == 0.5


def test_a_wrong_candidate_is_told_and_never_chosen(monkeypatch):
    launch = Arrays.launch
    bad = cost.shortlist(cost.ranked(BLOCK, 1, 2, cuda.multiprocessors(), cuda.shared_memory(), False), 2)[0]

    def spoiled(self, problem, tile):
        right = launch(self, problem, tile)

        def run():
            right()
            if tile == bad:
                self.out[0, 0, 0, 0] += 100

        return run

    monkeypatch.setattr(Arrays, "launch", spoiled)
    result = search.search(
        Problem(BLOCK, 1, "float16"), tried=2, timer=timer(lambda name: float(name == "unfused") + 1)
    )
    assert result.tile not in (None, bad) and len(result.wrong) == 1
    assert "a relative error of" in result.wrong[0]


def test_a_candidate_that_writes_nothing_is_wrong(monkeypatch):
    monkeypatch.setattr(Arrays, "launch", lambda self, problem, tile: lambda: None)
    result = search.search(Problem(BLOCK, 1, "float16"), tried=2, timer=timer(lambda name: 1.0))
    assert result.tile is None and result.best is None and len(result.wrong) >= 2


def test_a_candidate_that_cannot_be_launched_is_left_out(monkeypatch):
    def refuses(self, problem, tile):
        raise RuntimeError("too many resources requested")

    monkeypatch.setattr(Arrays, "launch", refuses)
    result = search.search(Problem(BLOCK, 1, "float16"), tried=2, timer=timer(lambda name: 1.0))
    assert result.best is None and all("too many resources" in text for text in result.failed)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    "block",
    [
        BLOCK,
        OTHER,
        dataclasses.replace(OTHER, bounds=((0.0, 6.0), (-0.5, 0.5), (-1.0, 1.0))),
        Block(4, 8, 3, 16, 8, 1, "stem", (8, 16)),
        Block(6, 5, 16, 16, 8, 2, "none", residual=True),
    ],
    ids=str,
)
def test_separate_kernels_compute_the_block(block, dtype):
    """What every fused block is timed against and compared with is right."""
    problem = Problem(block, 2, dtype)
    arrays = Arrays(problem)
    out = cuda.to_layout(cuda.full(arrays.out.shape, np.nan, dtype), "NHWC")
    search.unfused(arrays, problem, out)()
    given = (
        arrays.x, arrays.expand, arrays.expand_bias, arrays.depthwise, arrays.depthwise_bias, arrays.project,
        arrays.project_bias,
    )  # fmt: skip
    residual = None if arrays.residual is None else cuda.asnumpy(arrays.residual)
    expected = reference(block, [None if a is None else cuda.asnumpy(a) for a in given], residual)
    close(cuda.asnumpy(out), expected, block, np.dtype(dtype).type)
    close(cuda.asnumpy(arrays.expected), expected, block, np.dtype(dtype).type)


def test_what_cannot_be_searched():
    with pytest.raises(ValueError, match="tried must be at least 1, got 0"):
        search.search(Problem(BLOCK, 1, "float16"), tried=0, timer=timer(lambda name: 1.0))
    with pytest.raises(ValueError, match="no tile fits the block"):
        search.search(Problem(Block(7, 7, 4096, 4096, 4096), 1, "float32"), timer=timer(lambda name: 1.0))
    if cuda.backend() != "gpu":
        with pytest.raises(NoGpu, match="nothing is timed on the simulator"):
            search.search(Problem(BLOCK, 1, "float16"))


def test_a_tile_in_words():
    assert tiles.describe(None) == "separate kernels"
    assert tiles.describe(TILE) == "3×4, 32 channels, 2 warps"
    assert tiles.describe(Tile(7, 7, split=4, blocks=2)) == (
        "7×7, 64 channels, 4 warps, cluster of 4, 2 blocks per multiprocessor"
    )


def test_without_a_search_what_seems_dearer_stays_separate(monkeypatch):
    """As found on an H200: the early blocks gain, the late ones with many channels and few pixels do not."""
    for name, value in (("multiprocessors", 132), ("shared_memory", 232_448), ("compute_capability", 90)):
        monkeypatch.setattr(cuda, name, lambda value=value: value)
    early, late = Block(112, 112, 16, 96, 24, 2), Block(7, 7, 160, 960, 320)
    for batch in (1, 256):
        for block, expected in ((early, True), (late, False)):
            tile = rule(block, batch, 4)
            assert cost.worth_it(block, tile, batch, 4, 132, 232_448) is expected


def test_chained_candidates_are_possible():
    """At both strides, in both precisions; a stem's at stride 1; none where expand's lower bound is not 0."""
    halved, stem = Block(28, 28, 32, 192, 64, 2), Block(112, 112, 3, 32, 16, 1, "stem", (224, 224))
    for block in (halved, dataclasses.replace(halved, stride=1), stem):
        for itemsize in (2, 4):
            made = list(cost.chained_candidates(block, 32, itemsize, 132, 232_448, True))
            assert made and all(tile.chained for tile in made)
            for tile in made[:: len(made) // 20 + 1]:
                assert Geometry(block, tile, itemsize).problem(232_448) is None
                assert cost.predicted(block, tile, itemsize, 32, 132, 232_448) > 0
    lower = dataclasses.replace(halved, bounds=((-1.0, 6.0), *halved.bounds[1:]))
    assert not list(cost.chained_candidates(lower, 32, 2, 132, 232_448, True))
