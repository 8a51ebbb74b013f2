"""Cells of notebook 01/5 that check what the learner wrote: they refuse counts that forget a tensor."""

import json
from math import prod
from types import SimpleNamespace

import pytest

from common.check.exercises import REPOSITORY
from common.lab import markup
from common.report import generated

SHAPES = {"x": (3, 224, 224), "stem": (32, 112, 112), "wide": (144, 56, 56), "skip": (24, 56, 56)}
SHAPES |= {"narrow": (24, 56, 56), "sum": (24, 56, 56), "pooled": (1280,), "scores": (1000,)}
LAYERS = [("Conv2d", ["x"], "stem"), ("Conv2d", ["wide"], "narrow"), ("ResidualAdd", ["narrow", "skip"], "sum")]
LAYERS += [("Linear", ["pooled"], "scores"), ("Conv2d", ["stem"], "wide"), ("Conv2d", ["sum"], "pooled")]


def verdict(change):
    """What the cell that checks `traffic` says, with its solution's text changed."""
    path = REPOSITORY / "01_topology/5_roofline_and_fusion.ipynb"
    cells = [generated.source(one) for one in json.loads(path.read_text(encoding="utf-8"))["cells"]]
    (text,) = [cell for cell in cells if cell.startswith("def traffic(")]
    layers = [SimpleNamespace(op=op, inputs=inputs, output=output) for op, inputs, output in LAYERS]
    stem, project, add, linear, expand, pool = layers
    space = {
        "kernels": [[stem], [expand], [project, add], [pool], [linear]],
        "sizes": {name: prod(shape) for name, shape in SHAPES.items()},
        "net": SimpleNamespace(output="scores"),
    }
    changed = markup.plain(text).replace(*change)
    assert change == ("", "") or changed != markup.plain(text)
    try:
        exec(changed, space)
    except AssertionError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("", ""), ""),
        ((" | {net.output}", ""), "linear: (1280, 0), expected (1280, 1000): net.output"),
        (("needed - written", "needed"), "projection with addition"),
    ],
)
def test_traffic_counts_the_output_of_the_network(change, message):
    said = verdict(change)
    assert message in said and bool(message) == bool(said)
