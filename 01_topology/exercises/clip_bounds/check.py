"""Builds Clip nodes in both spellings, with none, one or both bounds."""

import math
import random

import numpy as np
from onnx import helper

from common.check import expect


def old(lower=None, upper=None):
    """The node up to operator set 10, and its constants: none."""
    bounds = {"min": lower, "max": upper}
    return helper.make_node("Clip", ["x"], ["y"], **{k: v for k, v in bounds.items() if v is not None}), {}


def new(lower=None, upper=None):
    """The node from operator set 11 on, and its constants among others of the model."""
    constants = {"weight": np.ones((), np.float32)}
    names = ["", ""]
    for i, (name, bound) in enumerate((("low", lower), ("high", upper))):
        if bound is not None:
            names[i] = name
            constants[name] = np.array(bound, np.float32)
    while names and not names[-1]:
        names.pop()
    return helper.make_node("Clip", ["x", *names], ["y"]), constants


def check(clip_bounds):
    def compare(spelling, hint, lower, upper):
        node, constants = spelling(lower, upper)
        want = (-math.inf if lower is None else lower, math.inf if upper is None else upper)
        shown = f"Clip{tuple(node.input)}" if spelling is new else f"Clip with the attributes {attributes(node)}"
        expect(clip_bounds(node, constants), want, what=f"the bounds of {shown}", hint=hint)

    both = "from operator set 11 on, the names of both bounds are inputs of the node: their values are constants"
    compare(new, both, -1.5, 4.0)
    named = "up to operator set 10 the bounds are attributes, told apart by name, not by place"
    compare(old, named, -1.5, 4.0)
    compare(new, "0 is a bound like any other", 0.0, 6.0)
    compare(old, "0 is a bound like any other", 0.0, 6.0)
    compare(new, "an input named '' is left out, and those after it keep their places", None, 6.0)
    compare(new, "the inputs end where no bound is given any more", 0.5, None)
    compare(old, "only one of the two attributes may be there", None, 6.0)
    compare(old, "only one of the two attributes may be there", 0.5, None)
    compare(new, "a Clip without bounds changes nothing: −inf and inf", None, None)
    compare(old, "a Clip without bounds changes nothing: −inf and inf", None, None)

    draw = random.Random()
    for spelling in (old, new):
        for _ in range(10):
            lower = draw.randint(-64, 64) / 8
            compare(spelling, "the bounds may be any numbers", lower, lower + draw.randint(1, 64) / 8)


def attributes(node):
    return {attribute.name: attribute.f for attribute in node.attribute}
