"""The chain of steps with recorded times, and what layouts cost in it."""

import pytest

from common.lab import layouts
from common.report import results, tables


def test_a_chain_has_the_networks_steps_in_both_layouts():
    recorded = results.load(tables.CARD)
    steps, changes = layouts.chain(recorded, 32)
    assert len(steps) == 54 and len(changes) == 55 and all(set(step) == set(layouts.LAYOUTS) for step in steps)
    whole = results.find(recorded, suite="operators", implementation="cudnn", precision="fp32", batch=32, layout="NHWC")
    assert sum(step["NHWC"] for step in steps) == pytest.approx(sum(r["count"] * r["median_us"] for r in whole))
    assert changes[0] == pytest.approx(2 * 4 * 32 * 3 * 224 * 224 / 4.28e6, rel=0.01)  # at 4.28 TB/s


def test_what_is_spent():
    steps = [{"NCHW": 1.0, "NHWC": 2.0}, {"NCHW": 4.0, "NHWC": 3.0}]
    assert layouts.spent(steps, [10.0, 20.0, 30.0], ["NCHW", "NCHW"]) == (5.0, 0, 0)
    assert layouts.spent(steps, [10.0, 20.0, 30.0], ["NCHW", "NHWC"]) == (4.0, 50.0, 2)
    assert layouts.spent(steps, [10.0, 20.0, 30.0], ["NHWC", "NHWC"]) == (5.0, 40.0, 2)


def test_what_notebook_1_of_chapter_05_says_of_them():
    steps, changes = layouts.chain(results.load(tables.CARD), 32)
    fastest = [min(step, key=step.get) for step in steps]
    assert fastest.count("NCHW") == 12 and layouts.spent(steps, changes, fastest)[2] == 20
    in_one, each = (layouts.spent(steps, changes, one) for one in (["NHWC"] * 54, fastest))
    assert sum(in_one[:2]) < sum(each[:2]), "one layout for all is faster than each step's fastest"
