"""The drawing of the architecture shows the packages and the contract that import-linter holds."""

import tomllib

from common.draw import course
from common.report import results

ROOT = results.course()
CONTRACT = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]["layers"]


def test_the_rows_are_the_layers_of_the_contract_in_their_order():
    layers = [tuple(name.strip().removeprefix("common.") for name in layer.split("|")) for layer in CONTRACT]
    drawn: list[tuple[str, ...]] = []
    for row in course.ROWS:
        drawn += [row] if row in course.BESIDE else [(name,) for name in row]
    assert drawn == layers


def test_each_package_is_there_and_each_stop_is_a_package():
    names = {name for row in course.ROWS for name in row}
    there = {
        path.stem for path in (ROOT / "common").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert there - {"__init__"} == names
    assert {stop.package for stop in course.STOPS} <= names


def test_it_is_drawn_with_an_alternative_text():
    drawing = course.architecture()
    assert all(stop.gives in drawing.alt for stop in course.STOPS)
    assert len(drawing.figure.axes[0].texts) > 30
