"""Plans for a class: notebooks that are there, in the order in which they are read; hours are the notebooks'."""

import re

import pytest

from common.lab import links, syllabus
from common.report import results, tables

ROOT = results.course()


@pytest.mark.parametrize("weeks", syllabus.PLANS)
def test_each_week_is_of_a_length_that_a_learner_can_do(weeks):
    plan = syllabus.plan(weeks)
    assert len(plan) == weeks
    assert all(100 <= sum(tables.minutes(path) for path in week) <= 280 for week in plan)


@pytest.mark.parametrize("weeks", syllabus.PLANS)
def test_no_notebook_twice_and_none_before_an_earlier_one(weeks):
    read = [path for week in syllabus.plan(weeks) for path in week]
    assert len(set(read)) == len(read)
    assert read == sorted(read, key=links.notebooks().index)


def test_the_longest_plan_is_the_whole_course():
    weeks = max(syllabus.PLANS)
    assert [path for week in syllabus.plan(weeks) for path in week] == links.notebooks()
    hours = sum(tables.minutes(path) for path in links.notebooks()) / 60
    assert f"| all | {len(links.notebooks())} notebooks | {hours:.0f} | – |" in syllabus.table(weeks)


@pytest.mark.parametrize("weeks", syllabus.PLANS)
def test_the_hours_are_the_minutes_that_the_notebooks_state(weeks):
    rows = re.findall(r"^\| (\d+) \|[^|]*\| ([\d.]+) \|", syllabus.table(weeks), re.MULTILINE)
    stated = [sum(tables.minutes(path) for path in week) for week in syllabus.plan(weeks)]
    assert [(int(week), hours) for week, hours in rows] == [(i, f"{m / 60:.1f}") for i, m in enumerate(stated, 1)]


def test_a_milestone_comes_when_its_files_are_written():
    assert syllabus.milestones(4) == {}  # without convolutions there is no engine
    assert "milestone" not in syllabus.table(4) and "| hours | milestone |" in syllabus.table(8)
    for weeks, due in ((8, (1, 2, 4)), (15, (1, 2, 4, 5, 6))):
        found = syllabus.milestones(weeks)
        assert tuple(found) == due and list(found.values()) == sorted(found.values())
        last = found[4]
        before = [path.stem for week in syllabus.plan(weeks)[:last] for path in week]
        assert "11_depthwise" in before and "10_pointwise" in before


def test_a_plan_that_does_not_fit_is_refused(monkeypatch):
    with pytest.raises(ValueError, match="weeks must be one of 4, 8, 15, got 5"):
        syllabus.plan(5)
    monkeypatch.setitem(syllabus.PLANS, 1, ({"04": (99,)},))
    with pytest.raises(LookupError, match="the plan for 1 weeks names 04/99"):
        syllabus.plan(1)
