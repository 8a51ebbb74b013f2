"""What checks draw, and the hints for slips that they recognise."""

import random

import numpy as np
import pytest

from common.check.trials import FEW, NO_FLOAT, Slips, seeded, whole


def test_whole_numbers_of_every_magnitude():
    draw = random.Random(1)
    numbers = [whole(draw, 3) for _ in range(600)]
    assert min(numbers) == 3
    assert all(any(low <= number < 100 * low for number in numbers) for low in (3, 10**3, 2**31, 2**53))


def test_whole_numbers_that_can_be_counted_up_to():
    draw = random.Random(1)
    numbers = {whole(draw, 1, most=FEW) for _ in range(2000)}
    assert FEW // 2 < max(numbers) <= FEW
    assert numbers >= {1, 2, 3, 4}


def test_no_float_holds_every_whole_number_from_there_on():
    assert float(NO_FLOAT + 1) == NO_FLOAT


def test_a_seed_repeats_what_was_drawn(monkeypatch):
    monkeypatch.delenv("COURSE_SEED", raising=False)
    first, told = seeded()
    name, _, seed = told.partition("=")
    monkeypatch.setenv(name, seed)
    second, again = seeded()
    assert again == told
    assert np.array_equal(first.random(5), second.random(5))


@pytest.fixture
def slips():
    return Slips(
        {
            "twice": lambda x: 2 * x,
            "squared": lambda x: x * x,
            "inverse": lambda x: 1 / x,
            "larger than 9": lambda x: {}[x] if x > 9 else -x,
        }
    )


def test_the_slip_that_explains_a_result(slips):
    assert slips.hint(6, (3,), "otherwise") == "twice"


def test_no_slip_or_several_explain_nothing(slips):
    assert slips.hint(4, (2,), "otherwise") == "otherwise"  # twice 2 is 2 squared
    assert slips.hint(9, (3,), "otherwise") == "squared"
    assert slips.hint(8, (4,), "otherwise") == "otherwise"  # what was squared before is not now


def test_a_slip_that_has_been_contradicted_is_not_named_again(slips):
    assert slips.hint(3, (3,), "right") == "right"
    assert slips.hint(6, (3,), "otherwise") == "otherwise"


def test_a_slip_that_fails_explains_nothing(slips):
    assert slips.hint(-2, (2,), "otherwise") == "larger than 9"
    assert slips.hint(0.0, (0,), "otherwise") == "otherwise"  # 1 / 0
    assert Slips({"a": lambda x: {}[x]}).hint(1, (1,), "otherwise") == "otherwise"


def test_slips_of_floats_lists_and_arrays():
    halves = Slips({"half": lambda x: x / 2})
    assert halves.hint(np.array([0.5, 1.0]), (np.array([1.0, 2.0]),), "otherwise") == "half"
    pairs = Slips({"exchanged": lambda a, b: (b, a)})
    assert pairs.hint((0.1 + 0.2, 1), (1, 0.3), "otherwise") == "exchanged"
