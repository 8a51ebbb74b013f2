"""Do parameters belong to a network?"""

import numpy as np
import pytest

from common import weights
from common.topology import build


def test_every_problem_is_named():
    graph, parameters = build(0.35, 10, 32), weights.network("digits")[1]
    weights.check(graph, parameters)

    del parameters["features.0.0.weight"]
    parameters["features.1.conv.1.bias"] = np.zeros((8, 1), np.float32)
    parameters["features.2.conv.2.bias"] = np.zeros(8, np.int32)
    parameters["classifier.1.bias"] = np.array([0, np.nan, np.inf, *[0] * 7], np.float32)
    parameters["classifier.2.bias"] = np.zeros(3)
    with pytest.raises(ValueError, match=r"mobilenetv2-0\.35-32: 5 parameters do not fit: ") as error:
        weights.check(graph, parameters)
    assert str(error.value).partition("do not fit: ")[2].split("; ") == [
        "features.0.0.weight: missing, expected (16, 3, 3, 3)",
        "features.1.conv.1.bias: expected (8,), got (8, 1)",
        "features.2.conv.2.bias: expected floating-point numbers, got int32",
        "classifier.1.bias: 2 of 10 numbers are infinite or not a number",
        "classifier.2.bias: no layer reads it, got (3,)",
    ]


def test_findings_follow_the_graph():
    graph, parameters = weights.network("digits")
    found = list(weights.findings(graph, parameters))
    assert [finding.name for finding in found] == list(graph.parameter_shapes)
    assert not any(finding.problem for finding in found)
    assert {finding.layer for finding in found} <= {layer.name for layer in graph}
