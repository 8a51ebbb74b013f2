"""Figures that are files show the committed results; what makes one stale, tried out."""

import copy
from pathlib import Path

import pytest
from report_records import network, peaks

from common.report import figures, plots, results, tables
from common.report.figures import FIGURES, Figure


@pytest.fixture
def content():
    batches = [network("cudnn", 60.0 * n, batch=n) for n in (1, 8)] + [network("xla", 90.0)]
    return results.Results(records=[*batches, *peaks()])


@pytest.fixture
def figure():
    return Figure(
        "peers.svg",
        lambda content: results.find(content, suite="network"),
        lambda _, records: plots.peers(records),
    )


@pytest.mark.parametrize("committed", FIGURES, ids=lambda committed: Path(committed.path).name)
def test_no_figure_of_the_course_is_stale(committed):
    content = results.load(tables.CARD)
    assert committed.optional or committed.records(content), "the results file has nothing for it"
    assert not committed.stale(results.course(), content), "python -m common generate"


@pytest.mark.parametrize("committed", FIGURES, ids=lambda committed: Path(committed.path).name)
def test_every_figure_is_shown_in_its_chapter(committed):
    if committed.optional and not committed.records(results.load(tables.CARD)):
        pytest.skip(f"there are no records for {Path(committed.path).name} yet")
    path = results.course() / committed.path
    pages = [path.with_name(name) for name in ("README.md", "RESULTS.md")]
    assert any(f"]({path.name})" in page.read_text(encoding="utf-8") for page in pages if page.exists())


def test_other_records_make_it_stale(figure, content, capsys, tmp_path):
    assert figure.stale(tmp_path, content)  # there is no file yet
    assert not figures.run(True, [figure], content, tmp_path) and list(tmp_path.iterdir()) == []
    assert "peers.svg is stale: python -m common generate" in capsys.readouterr().out
    assert figures.run(False, [figure], content, tmp_path) and figures.run(True, [figure], content, tmp_path)
    other = copy.deepcopy(content)
    other.suite("network")[0]["median_us"] += 1
    assert figure.stale(tmp_path, other) and not figures.run(True, [figure], other, tmp_path)
    other.suite("network")[0]["median_us"] -= 1
    other.suite("peaks")[0]["median_us"] += 1  # which it does not show
    assert not figure.stale(tmp_path, other)


def test_the_peers_are_all_drawn(content):
    drawn = plots.peers(results.find(content, suite="network"))
    assert [text.get_text() for text in drawn.legends[0].get_texts()] == ["XLA (JAX)", "cuDNN, layer by layer"]
    assert [panel.get_title() for panel in drawn.axes] == ["fp32", "tf32", "fp16"]
    lines = [line for panel in drawn.axes for line in panel.get_lines()]
    assert sorted(tuple(line.get_ydata()) for line in lines) == [(60.0, 480.0), (90.0,)]


def test_of_several_ways_the_fastest_is_drawn():
    drawn = plots.peers([network("xla", 90.0), network("xla", 80.0, layout="NCHW"), network("xla", 99.0)])
    assert [tuple(line.get_ydata()) for panel in drawn.axes for line in panel.get_lines()] == [(80.0,)]
