"""Drawings of an engine at work: programs and their arenas, relocation, two threads, two errors."""

import pytest
from test_draw import check_words, words

from common import draw

DRAWINGS = {
    "programs": lambda: draw.programs(1_607_592, {"(1, 3, 48, 48)": 165_888, "(20, 3, 48, 48)": 3_317_760}),
    "one small program": lambda: draw.programs(1_000_000_000, {"batch 1": 1}),
    "relocation": lambda: draw.relocation(110_592, 0x7F3A10000000, 0x7F5C20000000),
    "turns": draw.turns,
    "turns without arenas": lambda: draw.turns(programs=0),
    "turns with two programs": lambda: draw.turns(8, 7, programs=2),
    "turns of the longest run": lambda: draw.turns(8, 1),
    "two_errors": draw.two_errors,
    "two_errors of five steps": lambda: draw.two_errors(("a", "b", "c", "d", "e"), wrong=4),
}


@pytest.mark.parametrize("name", DRAWINGS)
def test_words_are_within_the_figure_and_large_enough_and_there_is_a_text(name):
    check_words(DRAWINGS[name]())


def test_bytes_of_programs():
    drawing = DRAWINGS["programs"]()
    said = words(drawing)
    assert "1,607,592 bytes" in said and "3,317,760 bytes" in said
    assert "joined by lines to 2 programs" in drawing.alt
    with pytest.raises(ValueError, match="arenas must be one to five, got 0"):
        draw.programs(1, {})
    with pytest.raises(ValueError, match="weights must be a whole number of 1 or more, got 0"):
        draw.programs(0, {"a": 1})


def test_an_offset_is_added_to_the_new_address():
    said = words(draw.relocation(0x100, 0x1000, 0x8000))
    assert "pointwise(0x1100, …)" in said and "pointwise(0x8100, …)" in said and "[offset 256, …]" in said


def test_turns_of_two_threads():
    shared, own = draw.turns(5, 2), draw.turns(5, 2, programs=2)
    assert words(shared).count("?") == 3 and "They write one arena" in shared.alt
    assert "?" not in words(own) and "They write two arenas" in own.alt
    alone = draw.turns(5, 2, programs=0)
    assert "?" not in words(alone) and "arena" not in alone.alt + str(words(alone))
    with pytest.raises(
        ValueError, match="launches must be at most 8, interrupted less, programs 0, 1 or 2, got 5, 5 and 1"
    ):
        draw.turns(5, 5)


def test_the_wrong_step_alone_has_an_own_error():
    said = words(draw.two_errors(wrong=1))
    assert said.count("wrong") == 3 + 1 and said.count("fine") == 1 + 3
    with pytest.raises(ValueError, match="steps must be 3 to 5, and wrong one of them, got 2 and 0"):
        draw.two_errors(("a", "b"), wrong=0)
