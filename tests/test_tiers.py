"""The rows that stand for a product of parameters: every two values meet, in few rows."""

import itertools

from tiers import covering


def pairs(rows):
    return {pair for row in rows for pair in itertools.combinations(enumerate(row), 2)}


def test_every_two_values_meet_in_few_rows():
    rows = list(itertools.product("abcdefg", range(6), (False, True), ("x", "y")))
    taken = [rows[i] for i in covering(rows)]
    assert pairs(taken) == pairs(rows) and len(taken) < 60 < len(rows) == 168
    assert covering(rows) == covering(list(rows))


def test_what_never_met_is_not_made_up():
    rows = [("naive", "NCHW", 1), ("naive", "NCHW", 2), ("tiled", "NHWC", 1)]
    assert covering(rows) == [0, 1, 2]


def test_a_single_parameter_keeps_all_its_values():
    assert covering([(1,), (2,), (3,)]) == [0, 1, 2]
    assert covering([]) == []
