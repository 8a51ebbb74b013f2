"""Names out of files are shown as one line that a terminal does not act on."""

import pytest

from common.text import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("features.0", "features.0"),
        ("Größe × 2", "Größe × 2"),
        ("\x1b[2J\x07", r"\x1b[2J\x07"),
        ("a\nb\r\tc", r"a\nb\r\tc"),
        ("\ud800\udcff", r"\ud800\udcff"),  # names that are not UTF-8
        ("\u202e", r"\u202e"),  # turns the line round
    ],
)
def test_what_a_terminal_acts_on_is_escaped(text, shown):
    assert printable(text) == shown and printable(text).isprintable()


@pytest.mark.parametrize("text", ["n" * 1000, "\n" * 1000, "\U000e0001" * 1000])
def test_a_limit_holds_after_escaping(text):
    assert len(printable(text, 50)) == 50 and printable(text, 50).endswith("…")
    assert printable("n" * 50, 50) == "n" * 50
