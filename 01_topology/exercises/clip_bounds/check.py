"""Builds Clip nodes in both spellings, with none, one or both bounds."""

import math

import numpy as np
from onnx import helper

from common.check import expect
from common.check.trials import Slips, python_random


def old(lower=None, upper=None, draw=None):
    """The node up to operator set 10, its attributes in any order, and constants that are none of its own."""
    bounds = [(key, value) for key, value in (("min", lower), ("max", upper)) if value is not None]
    node = helper.make_node("Clip", ["x"], ["y"])
    if draw:
        draw.shuffle(bounds)
    node.attribute.extend(helper.make_attribute(key, value) for key, value in bounds)
    return node, {"min": np.array(-77, np.float32), "max": np.array(77, np.float32)} if draw else {}


def new(lower=None, upper=None, draw=None):
    """The node from operator set 11 on, and its constants among others of the model."""
    constants = {"weight": np.ones((), np.float32)}
    known = [("low", "high")]
    if draw:  # exporters give any names
        known += [("max", "min"), ("onnx::Clip_9", "onnx::Clip_8"), ("0", "-1"), ("x.max", "x")]
    chosen, names = (draw.choice(known) if draw else known[0]), ["", ""]
    for i, (name, bound) in enumerate(zip(chosen, (lower, upper), strict=True)):
        if bound is not None:
            names[i] = name
            constants[name] = np.array(bound, np.float32)
    if not draw or draw.random() < 0.5:  # else those that are left out are all named ""
        while names and not names[-1]:
            names.pop()
    return helper.make_node("Clip", ["input", *names], ["y"]), constants


def swapped(node, constants):
    low, high = bounds_of(node, constants)
    return high, low


def bounds_of(node, constants):
    given = {attribute.name: attribute.f for attribute in node.attribute}
    names = [*node.input[1:], "", ""]
    low = float(constants[names[0]]) if names[0] else given.get("min", -math.inf)
    high = float(constants[names[1]]) if names[1] else given.get("max", math.inf)
    return low, high


SLIPS = {
    "the pair is (lower, upper), in this order": swapped,
    "a bound that is not given is −inf or inf, not 0": lambda node, constants: tuple(
        bound if math.isfinite(bound) else 0.0 for bound in bounds_of(node, constants)
    ),
    "a bound that is not given is −inf or inf, not ReLU6's": lambda node, constants: tuple(
        bound if math.isfinite(bound) else relu6
        for bound, relu6 in zip(bounds_of(node, constants), (0.0, 6.0), strict=True)
    ),
    "this is ReLU6's range; another Clip has other bounds": lambda node, constants: (0.0, 6.0),
}


def check(clip_bounds):
    slips = Slips(SLIPS)

    def compare(spelling, hint, lower, upper, draw=None):
        node, constants = spelling(lower, upper, draw)
        if spelling is new:
            values = {name: float(constants[name]) for name in node.input[1:] if name}
            shown = f"Clip{tuple(node.input)}, the constants being {values}"
        else:
            shown = f"Clip with the attributes { ({attribute.name: attribute.f for attribute in node.attribute}) }"
        got = clip_bounds(node, constants)
        hint = slips.hint(got, (node, constants), hint)
        expect(got, bounds_of(node, constants), what=f"the bounds of {shown}", hint=hint)

    both = "from operator set 11 on, the names of both bounds are inputs of the node: their values are constants"
    compare(new, both, -1.5, 4.0)
    named = "up to operator set 10 the bounds are attributes, told apart by name, not by place"
    compare(old, named, -1.5, 4.0)
    compare(new, "0 is a bound like any other", 0.0, 6.0)
    compare(old, "0 is a bound like any other", 0.0, 6.0)
    compare(
        new, "an input named '' is left out: that bound is −inf or inf, and those after it keep their places", None, 6.0
    )
    compare(new, "the inputs end where no bound is given any more", 0.5, None)
    compare(old, "only one of the two attributes may be there: they are told apart by name, not by place", None, 6.0)
    compare(old, "only one of the two attributes may be there: they are told apart by name, not by place", 0.5, None)
    compare(new, "a Clip without bounds changes nothing: −inf and inf", None, None)
    compare(old, "a Clip without bounds changes nothing: −inf and inf", None, None)

    draw = python_random()
    hints = {
        new: "the second input names the lower bound, the third the upper, whatever the names are; '' is none",
        old: "the attribute named min is the lower bound, max the upper; one that is not there is −inf or inf",
    }
    for _ in range(30):
        for spelling in (old, new):
            lower = draw.choice([draw.randint(-64, 64) / 8, -0.0, 1e-30, -3e38, -math.inf, 70000.0])
            upper = draw.choice([lower, abs(lower) + draw.randint(1, 64) / 8, 3e38, math.inf])
            lower, upper = draw.choice([(lower, upper), (lower, upper), (lower, None), (None, upper), (None, None)])
            compare(spelling, hints[spelling], lower, upper, draw)
