"""bench all: what it will take is said first; one suite that fails does not end the others."""

import contextlib
import io
from types import SimpleNamespace

import pytest
from report_records import H200, network, saved
from rich.console import Console

from common.bench import everything
from common.report import results, tables


@pytest.fixture
def card(monkeypatch, tmp_path):
    """A made-up card, whose folder of results is empty; returns the folder of all results."""
    monkeypatch.setattr(everything.graphs, "on_stream", contextlib.nullcontext)
    monkeypatch.setattr(everything.environment, "card", lambda: "Made Up 9000")
    return tmp_path


def said():
    return Console(file=io.StringIO(), width=160)


def test_the_estimate_comes_first_and_alone(card):
    console = said()
    assert everything.bench(everything.Options(folder=card), console, load=None)
    words = console.file.getvalue()
    assert f"as recorded on {tables.CARD}" in words and "nothing was measured" in words
    assert all(name in words for name in everything.NAMES)


def test_the_estimate_is_of_the_card_itself_where_it_has_records(card):
    watched = H200 | {"card": "Made Up 9000", "watch": {"looks": 2400}}
    results.save(card / "made-up-9000", "2031-02-03-network-c0ffee", watched, [network("ours", 60.0)])
    assert everything.seconds(results.load(card / "made-up-9000"), "network") == 120
    assert everything.seconds(results.load(card / "made-up-9000"), "chain") is None
    console = said()
    everything.bench(everything.Options(folder=card, suites=("network", "peaks")), console)
    assert "together about 2 minutes, as recorded on Made Up 9000, and 1 suites" in console.file.getvalue()


def test_the_estimate_of_energy_is_what_will_be_metered(card):
    """All sixteen cells, and those of int8: four times ten seconds each, and what torch.compile takes before."""
    nothing = results.load(card / "made-up-9000")
    cells = [
        one for name, given in everything.SUITES if name == "energy" for one in [everything.energy.Options(**given)]
    ]
    assert [len(one.durations()) for one in cells] == [4, 2]
    assert sum(len(one.backends_in(p)) for one in cells for _, p in one.durations()) == 16 + 4
    assert everything.seconds(nothing, "energy") == sum(sum(map(sum, one.durations().values())) for one in cells)
    assert 3000 < everything.seconds(nothing, "energy") < 5000


def test_the_estimate_leaves_out_what_is_not_timed(card):
    watched = H200 | {"card": "Made Up 9000", "watch": {"looks": 2400}}
    records = [network("torch-compile", 60.0)]
    results.save(card / "made-up-9000", "2031-02-03-network-c0ffee", watched, records)
    assert everything.seconds(results.load(card / "made-up-9000"), "network") is None


def test_every_suite_runs_and_those_that_fail_are_named(card):
    called = []

    def load(name):
        def bench(options, console):
            called.append((name, options.save, getattr(options, "mode", None)))
            if name == "plans":
                raise RuntimeError("no plans here\nat all")
            return name != "late"

        return SimpleNamespace(bench=bench, Options=lambda **given: SimpleNamespace(**{"mode": None, **given}))

    console = said()
    assert not everything.bench(everything.Options(save=True, folder=card), console, load)
    assert [name for name, *_ in called] == [name for name, _ in everything.SUITES]
    assert all(save for _, save, _ in called) and {mode for *_, mode in called} >= {None, "rotating", "host"}
    words = console.file.getvalue()
    assert "plans: no plans here" in words and "not measured, or wrong: late, plans" in words
    assert words.index("together about") < words.index("peaks ──")


def test_the_options_of_every_suite_are_those_that_it_has():
    for name, given in everything.SUITES:
        module = everything._module(name)
        assert module.Options(save=True, **given).save
    with pytest.raises(ValueError, match="suite must be one of peaks, network"):
        everything.Options(suites=("speed",))


def test_a_made_up_card_becomes_a_column(tmp_path):
    """What `bench all --save` writes for another card is all that its column needs."""
    saved(tmp_path / "made-up-9000", (H200 | {"card": "Made Up 9000"}, [network("ours", 9.0)]))
    assert tables.cards(results.every(tmp_path)).splitlines()[0] == "|  | Made Up 9000 |"
