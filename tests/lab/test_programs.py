"""Offsets for addresses, files with another header, and whose logits an interrupted run returns."""

from collections import namedtuple
from functools import partial
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest

from common import cuda, weights
from common.lab.programs import records, refusal, ruler, whose, with_header
from common.network import Network

View = namedtuple("View", "offset shape")


def test_arrays_in_the_arena_become_offsets_and_others_stay_arrays():
    memory = cuda.empty(1024, np.uint8)
    x, out = (memory[at : at + 24].view(np.float32).reshape(2, 3) for at in (0, 512))
    weight = cuda.asarray(np.arange(5, dtype=np.float32))
    kernel = mock.Mock()
    kernel.name = "add"
    launches = [partial(kernel, x, weight, None, out, np.float32(6), 7), partial(kernel, out, weight, x)]
    program = SimpleNamespace(memory=memory, launches=launches, input=x, output=out)
    found, size = records(program, View)
    assert size == 1024 and [name for name, _ in found] == ["ends", "add", "add"]
    first, second = View(0, (2, 3)), View(512, (2, 3))
    assert found[0][1] == [first, second]
    a, array, nothing, b, number, count = found[1][1]
    assert (a, nothing, b, number, count) == (first, None, second, np.float32(6), 7) and type(number) is np.float32
    np.testing.assert_array_equal(array, np.arange(5))
    assert isinstance(array, np.ndarray) and found[2][1][1] is array


def test_a_header_is_changed_and_refused(tmp_path):
    net = Network(weights.model("digits"))
    net.save(tmp_path / "one.plan")
    assert refusal(tmp_path / "one.plan") == ""
    changed = with_header(tmp_path / "one.plan", "other.plan", course="0.0.1")
    assert changed == tmp_path / "other.plan"
    assert refusal(changed).startswith("other.plan: expected course ") and "got '0.0.1'" in refusal(changed)
    assert refusal(tmp_path / "one.plan") == ""


def test_whose_logits_and_the_numbers_of_their_columns():
    one, two, other = (np.array([number, 2.0]) for number in (1, 2, np.nan))
    assert whose([two, one, other, two], [one, two]) == "21?2"
    with pytest.raises(ValueError, match="answers must be at most nine, got 10"):
        whose([], [one] * 10)
    assert ruler(55) == "0         10        20        30        40        50" and ruler(10) == "0"
