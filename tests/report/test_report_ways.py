"""The plot of descriptions: one dot per record, and words for those who do not see it."""

import matplotlib

matplotlib.use("Agg")

import pytest
from matplotlib.collections import PathCollection

from common.report import results, tables, ways

WAYS = results.find(results.load(tables.CARD), suite="plans")


def test_every_record_is_a_dot():
    figure = ways.dots(WAYS)
    dots = [len(one.get_offsets()) for one in figure.findobj(PathCollection)]
    assert sum(dots) >= len(WAYS)
    assert [axes.get_title() for axes in figure.axes] == list(dict.fromkeys(r["operator"] for r in WAYS))


def test_the_text_names_the_fastest_and_the_slowest():
    text = ways.alt(WAYS)
    for case in {r["operator"] for r in WAYS}:
        assert case in text
    slowest = max(r["median_us"] for r in WAYS)
    assert f"{slowest:.3g} µs" in text


def test_without_records():
    with pytest.raises(ValueError, match="at least one"):
        ways.dots([])
