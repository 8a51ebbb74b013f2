"""Errors of steps as text and as figures: what around() prints, and what the figures' texts say."""

from types import SimpleNamespace

import numpy as np
import pytest

from common.report import drift, plots


def row(index, error, own, allowed=1e-6):
    return SimpleNamespace(
        index=index, step=f"Conv2d({index})", error=error, own=own, allowed=allowed, fits=own <= allowed
    )


ROWS = [row(0, 1e-7, 1e-7), row(1, 2e-7, 1e-7), row(2, 0.5, 0.5), row(3, 0.7, 0.0), row(4, float("nan"), float("nan"))]


@pytest.fixture
def shown(monkeypatch):
    found = []
    monkeypatch.setattr(plots, "show", lambda figure, alt: found.append((figure, alt)))
    return found


def test_the_steps_around_the_first_wrong_one(capsys):
    drift.around(ROWS, before=1, after=1)
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["step", "so", "far", "own"]
    assert [line.split() for line in lines] == [
        ["1", "Conv2d(1)", "fine", "fine"], ["2", "Conv2d(2)", "0.5", "0.5"], ["3", "Conv2d(3)", "0.7", "fine"],
    ]  # fmt: skip


def test_nan_is_wrong_and_no_wrong_step_is_said(capsys):
    drift.around(ROWS[4:])
    assert capsys.readouterr().out.splitlines()[1].split() == ["4", "Conv2d(4)", "nan", "nan"]
    drift.around(ROWS[:2])
    assert capsys.readouterr().out == "every step fits\n"


def test_the_classes_that_change_places(capsys):
    exact = np.array([[5.0, 1, 3, 2.9, 0], [5, 4, 3, 2, 1]])
    rounded = exact + np.array([[0.3, 0, -0.04, 0.08, 0], [0.1, 0, 0, 0, 0]])
    drift.changed_order(exact, rounded, best=2)
    assert capsys.readouterr().out.splitlines() == [
        "picture 0: at place 2, class 2 gives way to class 3",
        "    their logits are 0.100 apart, and off by -0.040 and +0.080",
        "    the largest error of the 5 logits is 0.300",
    ]
    drift.changed_order(exact[1:], rounded[1:])
    assert capsys.readouterr().out.endswith("no picture changes the order of its best 5\n")
    with pytest.raises(ValueError, match="rounded"):
        drift.changed_order(exact, rounded[:1])


def test_culprits_are_marked(shown):
    drift.culprits(ROWS)
    ((figure, alt),) = shown
    figure.canvas.draw()
    assert alt.endswith("marked by crosses: 2, 4.")
    so_far, fits, others = figure.axes[0].lines
    assert list(so_far.get_xdata()) == [0, 1, 2, 3, 4]
    assert list(fits.get_xdata()) == [0, 1, 3] and min(fits.get_ydata()) == drift.FLOOR
    assert list(others.get_xdata()) == [2, 4]


def test_growth_has_a_panel_per_network(shown):
    drift.growth({"fp32": ROWS[:2], "fp16": ROWS[:2]})
    ((figure, alt),) = shown
    figure.canvas.draw()
    assert [axes.get_title() for axes in figure.axes] == ["fp32", "fp16"]
    assert "fp16: own errors up to 1e-07, at the end so far 2e-07" in alt
    with pytest.raises(ValueError, match="panels must have at least one network"):
        drift.growth({})
