"""Small networks as text, and what the default pass makes of them."""

import pytest

from common import topology
from common.lab.small_networks import small
from common.network.steps import fuse


@pytest.mark.parametrize(
    ("text", "output", "steps"),
    [
        ("conv x a, relu a b, conv b c", "c", "a b | c"),
        ("conv x a, sigmoid a b", "b", "a | b"),
        ("conv x a, relu a b, add a b c", "c", "a | b | c"),
        ("conv x a, relu a b", "a", "a | b"),
        ("conv x a, add a a b", "b", "a | b"),
        ("conv x a, add a x b, relu b c", "c", "a b c"),
        ("conv x a, relu a b, add b x c", "c", "a b | c"),
        ("conv x a, conv x b, add a b c", "c", "a | b c"),
        ("conv x a, sigmoid x b, add a b c", "c", "a | b | c"),
        ("sigmoid x b, conv x a, add a b c", "c", "b | a c"),
        ("conv x a, add a x b, norm b c, relu c d, conv d e", "e", "a b | c d | e"),
    ],
)
def test_what_joins(text, output, steps):
    graph = small(text, output)
    assert graph.output == output and graph.input == "x"
    assert " | ".join(" ".join(layer.name for layer in step.layers) for step in fuse(graph)) == steps


def test_layers_are_those_of_the_text():
    conv, norm = small("conv x a,norm a b", "b").layers
    assert isinstance(conv, topology.Conv2d) and conv.inputs == ("x",) and conv.bias is None
    assert isinstance(norm, topology.BatchNorm2d) and norm.running_var == "b.running_var"
    with pytest.raises(ValueError, match="a layer must be one of conv, norm, relu, add, sigmoid, got 'gelu'"):
        small("gelu x a", "a")
