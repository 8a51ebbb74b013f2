"""What is said of an answer, as lines of a terminal and as HTML: readable in both, in both themes."""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from common.check import feedback

COMPILER = """the kernel does not compile
line 6: 'colums' was not declared in this scope; did you mean 'columns'?
       6 |     for (int c = threadIdx.x; c < colums; c += 32)
         |                                   ^~~~~~
line 7: expected ';' before '}' token
       7 | }
line 8: 'step' was not declared in this scope
       8 |     x += step;
         |          ^~~~
line 9: 'a' was not declared in this scope
       9 |     a = 1;
line 10: 'b' was not declared in this scope
      10 |     b = 1;"""


def text_of(markup):
    """The text of HTML; every tag must be closed."""
    open_tags, pieces = [], []

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attrs):
            open_tags.append(tag)

        def handle_endtag(self, tag):
            assert open_tags.pop() == tag

        def handle_data(self, data):
            pieces.append(data)

    Reader().feed(markup)
    assert not open_tags
    return "".join(pieces)


def test_the_message_is_one_text():
    assert feedback.message("✗", "f", "f(2) is 3", "twice two") == "✗ f: f(2) is 3. Hint: twice two"
    assert feedback.message("✗", "f", "not started yet.", "") == "✗ f: not started yet."
    assert feedback.message("✗", "f", "why?", "") == "✗ f: why?"
    assert feedback.message("✗", "f", "one\n  two", "three") == "✗ f: one\n  two\nHint: three"


def test_a_compilers_errors_keep_their_lines():
    told = feedback.errors(COMPILER)
    assert told.splitlines() == [
        "the kernel does not compile:",
        "line 6: 'colums' was not declared in this scope; did you mean 'columns'?",
        "       6 |     for (int c = threadIdx.x; c < colums; c += 32)",
        "         |                                   ^~~~~~",
        "line 7: expected ';' before '}' token",
        "       7 | }",
        "line 8: 'step' was not declared in this scope",
        "       8 |     x += step;",
        "         |          ^~~~",
        "… and 2 more",
    ]
    assert feedback.errors(told.replace("… and 2 more", "")).splitlines()[:9] == told.splitlines()[:9]
    assert feedback.errors("out[3] is 1, expected 2") == "out[3] is 1, expected 2"
    assert feedback.errors("one\ntwo") == "one\ntwo"


def test_lines_of_a_terminal():
    what = "word " * 40 + "`a[i] <b>`"
    lines = feedback.plain("✗", "f", what, "hint " * 30).splitlines()
    assert all(len(line) <= 95 for line in lines) and lines[0].startswith("✗ f: word")
    assert len([line for line in lines if line.startswith("Hint: ")]) == 1
    assert " ".join(lines).count("hint") == 30
    assert feedback.plain("✗", "f", feedback.errors(COMPILER), "").splitlines()[3].endswith("^~~~~~")
    long = "x" * 200
    assert long in feedback.plain("✗", "f", long, "")


def test_formatted_text():
    made = feedback.formatted("✗", "f<x>", "a < b & `c[i] > 0`", "look at `i`")
    assert text_of(made) == "✗ f<x>: a < b & c[i] > 0Hint: look at i"
    assert "<code>c[i] &gt; 0</code>" in made and "<i>Hint: look at <code>i</code></i>" in made
    assert made.startswith('<div style="max-width:95ch"><b style="color:')
    made = feedback.formatted("✗", "f", feedback.errors(COMPILER), "")
    shown = re.search(r"<pre [^>]*>(.*?)</pre>", made, re.S)[1]
    assert "threadIdx.x; c &lt; colums" in shown and shown.count("\n") == 8
    assert "Hint" not in made
    assert feedback.GOOD in feedback.formatted("✓", "f", "passed (6 checks)", "")


def test_printed_where_there_is_no_notebook(capsys):
    feedback.show("plain", "<b>formatted</b>")
    assert capsys.readouterr().out == "plain\n"


# ---- Colours


def luminance(colour):
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one, other):
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def rgb(text):
    text = text.strip().removeprefix("#")
    text = "".join(2 * c for c in text) if len(text) == 3 else text
    return tuple(int(text[i : i + 2], 16) / 255 for i in (0, 2, 4))


def mixed(colour, text):
    """As color-mix(in srgb, colour 70%, text)."""
    share = int(re.search(r"(\d+)%", feedback.BAD)[1]) / 100
    return tuple(share * c + (1 - share) * t for c, t in zip(colour, text, strict=True))


def themes():
    """(name, background, text, {variable: colour}) of JupyterLab's themes as installed, and of VS Code's."""
    folder = Path(sys.prefix, "share/jupyter/lab/themes/@jupyterlab")
    for name, text in (("light", (0.13, 0.13, 0.13)), ("dark", (1, 1, 1))):
        path = folder / f"theme-{name}-extension" / "index.css"
        if path.exists():
            css = path.read_text(encoding="utf-8")
            values = dict(re.findall(r"(--jp-(?:error|success)-color\d):\s*var\([^,]*,\s*(#\w+)\)", css))
            for background in ("#fff",) if name == "light" else ("#111", "#212121"):
                yield name, rgb(background), text, values
    vscode = "--vscode-errorForeground", "--vscode-gitDecoration-addedResourceForeground"
    yield "code, light", rgb("#fff"), rgb("#3b3b3b"), dict(zip(vscode, ("#f85149", "#587c0c"), strict=True))
    yield "code, dark", rgb("#1f1f1f"), rgb("#cccccc"), dict(zip(vscode, ("#f85149", "#81b88b"), strict=True))
    yield "none, light", rgb("#fff"), rgb("#000"), {}
    yield "none, dark", rgb("#111"), rgb("#eee"), {}


@pytest.mark.parametrize("style", [feedback.BAD, feedback.GOOD], ids=["bad", "good"])
def test_colours_can_be_read_in_light_and_dark(style):
    named = re.findall(r"--[\w-]+", style)
    fallback = re.search(r"#\w{6}", style)[0]
    for name, background, text, values in themes():
        colour = rgb(next((values[variable] for variable in named if variable in values), fallback))
        found = contrast(mixed(colour, text), background)
        assert found >= 4.5, f"{name}: {found:.2f}"
