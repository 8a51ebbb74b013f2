"""The suite "fp8": its products on small layers, with the library played by NumPy."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from common.bench import fp8 as suite
from common.bench.late import Layer
from common.cuda import graphs
from common.cuda.graphs import NoGpu
from common.quantize.formats import FORMATS

LAYER = Layer("project", 7, 32, 16)


def timer(calls, samples):
    one = SimpleNamespace(median_us=2.0, p5_us=1.9, p95_us=2.2, calls=3, samples=samples, launch="graph", mode="hot")
    return dict.fromkeys(calls, one)


def fake(off=1.0):
    """Products as a library makes them, in NumPy; those in fp8 are off by a factor."""

    def products(numbers):
        found = {}
        for name, precision in list(suite.PRODUCTS.items())[:3]:
            result = numbers.exact(suite.FORM[precision]).astype(np.float16) * (off if precision == "fp8" else 1)
            found[name] = (lambda result=result: result, lambda result: result.astype(np.float64))
        return found

    return products


def test_numbers_are_whole_pieces():
    numbers = suite.Numbers.of(LAYER, 1)
    assert numbers.x.shape == (64, 32) and numbers.weight.shape == (16, 32)
    assert suite.Numbers.of(LAYER, 1).x.tobytes() == numbers.x.tobytes()
    rounded = FORMATS["e4m3"](numbers.weight, numbers.scales[1])
    assert 0.01 < np.linalg.norm(rounded - numbers.weight) / np.linalg.norm(numbers.weight) < 0.04


def test_records_have_the_errors_of_formats(monkeypatch):
    made = []
    monkeypatch.setattr(suite, "record", lambda *args, **fields: made.append((args, fields)) or fields)
    products = (suite.by_us, fake())
    records, right = suite.measure(LAYER, 1, suite.Options(), Console(quiet=True), products, timer)
    assert right and len(records) == 5
    errors = {args[2]: fields["error"] for args, fields in made}
    assert errors["torch-fp16"] < 1e-3 < errors["torch-int8"] < errors["torch-fp8"] < 0.06
    assert errors["torch-int8"] < errors["ours-int8"] < 0.05
    assert all(fields["work"].flops == 2 * 64 * 32 * 16 for _, fields in made)


def test_a_wrong_product_is_not_timed(capsys):
    records, right = suite.measure(LAYER, 1, suite.Options(), Console(width=200), (fake(1.05),), timer)
    assert not right and [r["implementation"] for r in records] == ["torch-fp16", "torch-int8"]
    assert "torch-fp8: wrong by" in capsys.readouterr().out


def test_what_is_not_there_is_said(capsys):
    def broken(numbers):
        raise RuntimeError("no fp8 here\nsecond line")

    records, right = suite.measure(LAYER, 1, suite.Options(), Console(width=200), (broken, fake()), timer)
    assert right and len(records) == 3
    assert "not timed: no fp8 here\n" in capsys.readouterr().out
    assert suite.measure(LAYER, 1, suite.Options(), Console(quiet=True), (broken,), timer) == ([], False)


def test_cases_of_the_options():
    assert {case.side for case in suite.CASES} == {7} and len(suite.Options().cases) == 5
    with pytest.raises(ValueError, match="case must be one of project 7×7"):
        suite.Options(cases=("stem",))
    assert dataclasses.replace(suite.Options(), cases=("head 7×7 320>1280",)).cases == ("head 7×7 320>1280",)


def test_only_on_a_gpu():
    if graphs.backend() == "gpu":
        pytest.skip("there is a GPU here, and this is about machines without")
    with pytest.raises(NoGpu):
        next(suite.run(suite.Options(), Console()))
