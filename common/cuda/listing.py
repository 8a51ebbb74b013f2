"""C++ source as HTML for notebooks: lines with a number, a coloured edge and notes below, for light and dark themes.

All styles are inline. Colours of words are mixed with the page's text colour: dark on a light page, light on a dark
one. JupyterLab removes these mixtures from untrusted outputs; then the classes, which are Pygments' own, give the words
JupyterLab's colours. Elsewhere the words have the colour of the surrounding text.
"""

import html
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# palette of M. Okabe and K. Ito, distinguishable with all kinds of colour vision
BLUE, ORANGE, VERMILION, GREEN, PURPLE = "#0072b2", "#e69f00", "#d55e00", "#009e73", "#cc79a7"

WORDS = {  # token type of Pygments: (class, colour). JupyterLab's colour of comments is too dim on dark: no class
    "Keyword": ("k", "#2b8fd6"), "Comment": (None, GREEN), "Literal.String": ("s", VERMILION),
    "Literal.Number": ("m", PURPLE),
}  # fmt: skip
SHARE = 64  # percent of the page's text colour in the colour of a word
NUMBER_OPACITY, NOTE_OPACITY = 0.8, 0.9
HEIGHT = "44em"  # longer listings scroll


@dataclass(frozen=True)
class Tint:
    """The mark of a line: the colour of its left edge, and the opacity, 0 … 1, of the same colour as background."""

    colour: str
    opacity: float

    def style(self) -> str:
        """The tint as inline CSS."""
        r, g, b = (int(self.colour[i : i + 2], 16) for i in (1, 3, 5))
        return f"border-left:4px solid {self.colour};background:rgba({r},{g},{b},{self.opacity})"


PLAIN = "border-left:4px solid transparent;background:transparent"


@dataclass(frozen=True)
class Line:
    """A line of a listing. mark: the text before the code, a number or a sign; code, notes: HTML."""

    mark: str
    code: str
    tint: Tint | None = None
    notes: Sequence[str] = ()


def mixed(colour: str) -> str:
    """CSS for a colour mixed with the page's text colour, readable on light and dark pages."""
    return f"color-mix(in srgb,currentColor {SHARE}%,{colour})"


def highlighted(text: str) -> list[str]:
    """The lines of C++ source as HTML, escaped, with coloured comments, keywords, strings and numbers."""
    from pygments.lexers.c_cpp import CppLexer
    from pygments.token import string_to_tokentype

    kinds = {string_to_tokentype(name): name for name in WORDS}
    tokens = CppLexer(stripnl=False, ensurenl=False).get_tokens(text + "\n")  # ends a comment in the last line
    named = ((next((name for kind, name in kinds.items() if token in kind), None), value) for token, value in tokens)
    lines = [""]
    for kind, group in itertools.groupby(named, key=lambda pair: pair[0]):
        for i, piece in enumerate("".join(value for _, value in group).split("\n")):
            if i:
                lines.append("")
            escaped = html.escape(piece)
            lines[-1] += _word(escaped, kind) if kind is not None and piece.strip() else escaped
    return lines[:-1]


def _word(escaped: str, kind: str) -> str:
    name, colour = WORDS[kind]
    style = f"color:{mixed(colour)}" + (";font-style:italic" if kind == "Comment" else "")
    return f"<span{f' class={name!r}' if name else ''} style='{style}'>{escaped}</span>"


_BOX = (
    "<div class='highlight' style='background:transparent;margin:0.4em 0;max-height:" + HEIGHT + ";overflow:auto'>"
    "<pre style='font-family:monospace;font-size:90%;line-height:1.35;margin:0;padding:0;border:0;"
    "background:transparent;white-space:{space};word-break:normal;overflow-wrap:break-word'>{rows}</pre></div>"
)


def listing(lines: Iterable[Line], gutter: float = 3.0) -> str:
    """Lines as HTML. Long lines wrap; a listing higher than HEIGHT scrolls.

    gutter: width of the column of marks, in em.
    """
    rows = "".join(_row(line, gutter) for line in lines)
    return _BOX.format(space="pre-wrap", rows=rows)


def _row(line: Line, gutter: float) -> str:
    style = line.tint.style() if line.tint else PLAIN
    mark = (
        f"<span style='display:inline-block;width:{gutter - 0.6:.3g}em;margin-right:0.6em;text-indent:0;"
        f"text-align:right;opacity:{NUMBER_OPACITY}'>{html.escape(line.mark)}</span>"
    )
    notes = "".join(
        f"<div style='text-indent:0;padding-left:1em;opacity:{NOTE_OPACITY}'>{note}</div>" for note in line.notes
    )
    # wrapped text is indented as far as the code
    return f"<div style='{style};padding-left:{gutter}em;text-indent:-{gutter}em'>{mark}{line.code or ' '}{notes}</div>"


def code(text: str) -> str:
    """C++ source as HTML without line numbers. Long lines scroll instead of wrapping, for copying."""
    return _BOX.format(space="pre", rows="\n".join(highlighted(text.rstrip("\n"))))


ADDED, REMOVED = Tint(GREEN, 0.18), Tint(VERMILION, 0.18)


def diff(text: str) -> str:
    """A unified diff of C++ as HTML: added and removed lines have a sign, an edge and a background."""
    lines = text.splitlines()
    names = 2 if text.startswith("--- ") else 0
    codes = highlighted("\n".join("" if _is_hunk(line) else line[1:] for line in lines[names:]))
    shown = [Line(line[:1], html.escape(line[3:]), _TINTS[line[0]]) for line in lines[:names]]
    for line, coloured in zip(lines[names:], codes, strict=False):  # highlighted("") has one line
        shown.append(
            Line("", f"<i>{html.escape(line)}</i>") if _is_hunk(line)
            else Line(line[:1], coloured, _TINTS.get(line[:1]))
        )  # fmt: skip
    return listing(shown, gutter=1.8)


_TINTS = {"+": ADDED, "-": REMOVED}


def _is_hunk(line: str) -> bool:
    return line.startswith("@@")
