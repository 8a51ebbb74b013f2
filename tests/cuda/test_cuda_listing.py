"""C++ as HTML: every character of it, escaped; colours that are readable on light and dark pages; diffs."""

import html
import itertools
import re

import pytest

from common import kernels
from common.cuda import listing, report

pytest.importorskip("pygments", reason="Pygments is not installed")

PAGES = {  # text, background
    "JupyterLab, light": ("#212121", "#ffffff"),
    "JupyterLab, dark": ("#ffffff", "#111111"),
    "VS Code, light": ("#3b3b3b", "#ffffff"),
    "VS Code, dark": ("#cccccc", "#1f1f1f"),
}
TINTS = [None, *report.TINTS.values(), listing.ADDED, listing.REMOVED]


def rgb(colour):
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]


def mix(over, under, share):
    return [share * a + (1 - share) * b for a, b in zip(over, under, strict=True)]


def contrast(one, other):
    """Of two colours, as WCAG 2 defines it: 1 to 21."""

    def luminance(colour):
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in colour)]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def plain(shown):
    return html.unescape(re.sub("<[^>]*>", "", shown))


def test_contrast_of_known_colours():
    assert contrast(rgb("#ffffff"), rgb("#000000")) == pytest.approx(21)
    assert contrast(rgb("#777777"), rgb("#ffffff")) == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("page", PAGES)
def test_text_is_readable_on_every_background(page):
    text, background = map(rgb, PAGES[page])
    shares = listing.SHARE / 100
    colours = {name: mix(text, rgb(colour), shares) for name, (_, colour) in listing.WORDS.items()}
    for tint in TINTS:
        behind = background if tint is None else mix(rgb(tint.colour), background, tint.opacity)
        shown = {
            **colours,
            "text": text,
            "number": mix(text, behind, listing.NUMBER_OPACITY),
            "note": mix(text, behind, listing.NOTE_OPACITY),
        }
        assert {
            name: contrast(colour, behind) for name, colour in shown.items() if contrast(colour, behind) < 4.5
        } == {}


@pytest.mark.parametrize("tints", [report.TINTS.values(), (listing.ADDED, listing.REMOVED)], ids=["report", "diff"])
@pytest.mark.parametrize("page", PAGES)
def test_tints_can_be_told_from_the_page_and_from_each_other(page, tints):
    background = rgb(PAGES[page][1])
    behind = [background] + [mix(rgb(tint.colour), background, tint.opacity) for tint in tints]
    for one, other in itertools.combinations(behind, 2):
        assert sum(abs(a - b) for a, b in zip(one, other, strict=True)) >= 20


@pytest.mark.parametrize(
    ("operator", "rung"), [("gemm", "naive"), ("gemm", "tensor_cores"), ("winograd", "fused_f2x2")]
)
def test_code_keeps_every_character(operator, rung):
    text = kernels.source(operator, rung)
    assert plain(listing.code(text)) == text.rstrip("\n")
    assert [plain(line) for line in listing.highlighted(text)] == text.split("\n")


def test_words_have_their_kind():
    line = listing.highlighted('if (a < 1) b = "x"; // c & d')[0]
    for name, word in (("k", "if"), ("m", "1"), ("s", "&quot;x&quot;")):
        assert re.search(f"<span class='{name}' style='color:[^']*'>{word}</span>", line)
    assert re.search("<span style='color:[^']*;font-style:italic'>// c &amp; d</span>", line)
    assert "(a &lt; " in line


def test_a_comment_of_several_lines_closes_its_colour_on_each():
    first, second = listing.highlighted("/* a\nb */ int x;")
    assert first.count("<span") == first.count("</span>") == 1
    assert second.startswith("<span") and plain(second) == "b */ int x;"


def test_nothing_that_jupyterlab_would_drop_carries_a_meaning():
    shown = listing.diff("--- a\n+++ b\n@@ -1 +1 @@\n-int x;\n+int y;\n")
    assert "var(" not in shown and "<style" not in shown
    tints = re.findall(r"border-left:4px solid (#\w+);background:rgba", shown)
    assert tints == [listing.VERMILION, listing.GREEN] * 2


def test_diff_keeps_signs_and_text():
    text = "--- a\n+++ b\n@@ -1,3 +1,3 @@\n float s;\n--- i;\n+++i;\n \n"
    rows = re.split("(?=<div style='border-left)", listing.diff(text))[1:]
    assert [plain(row) for row in rows] == ["- a", "+ b", "@@ -1,3 +1,3 @@", " float s;", "--- i;", "+++i;", "  "]
    colours = [listing.REMOVED.colour in row for row in rows]
    assert colours == [True, False, False, False, True, False, False]


def test_a_real_diff_shows_every_line():
    text = kernels.diff("gemm", "naive", "coalesced")
    assert listing.diff(text).count("<div style='border-left") == len(text.splitlines())


def test_an_empty_diff():
    assert plain(listing.diff("")) == ""
