"""The suite "multiprocessor": its kernels compute what they should, on the simulator; cycles need a GPU."""

import io

import numpy as np
import pytest
from rich.console import Console

from common import cuda
from common.bench import multiprocessor as suite
from common.cuda.graphs import NoGpu
from common.report import results


@pytest.mark.parametrize("registers", [1, 3])
def test_chains_of_multiply_adds_are_right(monkeypatch, registers):
    monkeypatch.setattr(suite, "RUNS", 1)
    suite.run_fma(1, 3, registers, steps=64)
    monkeypatch.setattr(suite, "A", -0.9)
    with pytest.raises(RuntimeError, match="fma with 1 warps per scheduler and 2 chains is wrong"):
        monkeypatch.setattr(suite, "_reference", lambda threads, *_, **__: np.ones(threads))
        suite.run_fma(1, 2, steps=64)


@pytest.mark.parametrize("by_warp", [False, True])
def test_every_arm_computes_its_own_sum(by_warp, monkeypatch):
    monkeypatch.setattr(suite, "RUNS", 1)
    suite.run_arms(4, by_warp, steps=32)


@pytest.mark.parametrize("mix", suite.MIXES, ids=suite.named)
def test_mixes_compute_what_they_should(mix, monkeypatch):
    monkeypatch.setattr(suite, "RUNS", 1)
    suite.run_mix(mix, 1, rounds=4)


def test_a_wrong_mix_is_an_error(monkeypatch):
    monkeypatch.setattr(suite, "RUNS", 1)
    monkeypatch.setitem(suite.OPERATIONS, "prmt", ("SHUFFLE", 1))
    with pytest.raises(RuntimeError, match="the mix prmt is wrong"):
        suite.run_mix({"prmt": 1}, 1, rounds=4)


@pytest.mark.parametrize(("loads", "width"), [(1, 4), (2, 16), (8, 16)])
def test_everything_is_loaded_once(loads, width):
    words = np.random.default_rng(1).integers(2**32, size=2**16, dtype=np.uint32)
    suite.run_loads(cuda.asarray(words), 3, 64, loads, width)()


def test_a_chain_comes_back_to_its_start():
    links = suite.chain(100, 4)
    place, seen = 0, set()
    for _ in range(100):
        place = int(links[place])
        seen.add(place)
    assert place == 0 and seen == set(range(0, 400, 4))
    suite.run_chase("chase", links, 200)
    with pytest.raises(RuntimeError, match="chase did not come back"):
        suite.run_chase("chase", links, 150)
    suite.run_chase("chase_shared", suite.chain(1024, 1), 1024)


@pytest.mark.parametrize("stride", [4, 100, 2304])
def test_every_lane_loads_its_own_word(stride, monkeypatch):
    monkeypatch.setattr(suite, "RUNS", 1)
    suite.run_strided(stride, steps=8)


def test_the_bounded_product_is_right():
    random = np.random.default_rng(4)
    a, b = (cuda.asarray(random.standard_normal((130, 130), np.float32)) for _ in range(2))
    out = cuda.full((130, 130), np.nan)
    suite.run_bounded(suite.bounded(2), a, b, out)
    assert np.allclose(cuda.asnumpy(out), cuda.asnumpy(a) @ cuda.asnumpy(b), atol=1e-3)


@pytest.mark.parametrize("name", suite.TRANSPOSES)
def test_every_transpose_is_right_also_at_the_edges(name):
    given = cuda.asarray(np.random.default_rng(5).standard_normal((70, 70), np.float32))
    suite.run_transposed(name, given, cuda.full((70, 70), 0))()
    with pytest.raises(RuntimeError, match=f"{suite.TRANSPOSES[name]} is wrong"):
        suite.run_transposed(name, cuda.full((70, 70), np.nan), cuda.full((70, 70), 0))


def test_without_a_gpu_it_says_where_the_cycles_are(monkeypatch):
    monkeypatch.setattr(cuda, "backend", lambda: "simulator")
    with pytest.raises(NoGpu, match="06_optimize/results"):
        suite.bench(suite.Options(), Console(file=io.StringIO()))
    with pytest.raises(ValueError, match="case must be one of latency, fma"):
        suite.Options(cases=("clock",))


def test_a_new_run_of_an_experiment_replaces_the_older_one(tmp_path):
    def rows(blocks):
        return [suite._record("waves", f"{n} blocks", blocks=n, per_sm=1, median_us=2.0) for n in blocks]

    here = {"card": "a card", "date": "2031-02-03"}
    results.save(tmp_path / "card", "one", here, rows([1, 2, 3]))
    results.save(tmp_path / "card", "two", here, rows([2, 4]), suite.superseded(rows([2, 4])))
    assert [r["blocks"] for r in results.find(results.load(tmp_path / "card"), suite="multiprocessor")] == [2, 4]
