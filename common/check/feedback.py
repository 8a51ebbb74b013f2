"""What a check says of an answer: one text, as plain lines of a terminal and as formatted text of a notebook."""

import html
import re
import sys
import textwrap
from typing import Any

WIDTH = 95  # letters of a line in a terminal
ERRORS = 3  # a compiler's, of which the first is the one to mend

# JupyterLab's colours, else those of VS Code, else fixed ones. A part of the text's own colour makes any of them easy
# to read on the background that this text is written for, light or dark. A notebook that is not trusted loses them.
_COLOUR = "color:color-mix(in srgb,{} 70%,currentColor)"
BAD = _COLOUR.format("var(--jp-error-color1,var(--vscode-errorForeground,#d32f2f))")
GOOD = _COLOUR.format("var(--jp-success-color0,var(--vscode-gitDecoration-addedResourceForeground,#388e3c))")

_PLACE = re.compile(r"^line (\d+): (.*)$")


def sentence(text: str) -> str:
    """The text with a full stop, if it does not end with a mark already."""
    text = text.rstrip()
    return text if text.endswith((".", "!", "?", "…", "`")) or "\n" in text else f"{text}."


def message(mark: str, name: str, what: str, hint: str) -> str:
    """All of it as plain text; a compiler's lines stay lines, and the hint then stands on one of its own."""
    what = sentence(what)
    between = "\n" if "\n" in what else " "
    return f"{mark} {name}: {what}" + (f"{between}Hint: {hint}" if hint else "")


def errors(what: str) -> str:
    """A message whose lines "line N: …" are a compiler's: the first few of them."""
    first, *rest = what.split("\n")
    blocks: list[list[str]] = [[]]
    for line in rest:
        if _PLACE.match(line):
            blocks.append([])
        blocks[-1].append(line)
    before, found = blocks[0], blocks[1:]
    if not found:
        return what
    lines = [f"{first.rstrip(':')}:", *before]
    for block in found[:ERRORS]:
        lines += block
    if len(found) > ERRORS:
        lines.append(f"… and {len(found) - ERRORS} more")
    return "\n".join(lines)


def plain(mark: str, name: str, what: str, hint: str) -> str:
    """All of it in lines of at most WIDTH letters; a compiler's stay as they are."""
    first, *rest = sentence(what).split("\n")
    lines = [_wrapped(f"{mark} {name}: {first}"), *rest]
    if hint:
        lines.append(_wrapped(f"Hint: {hint}"))
    return "\n".join(lines)


def _wrapped(text: str) -> str:
    return textwrap.fill(text, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def formatted(mark: str, name: str, what: str, hint: str) -> str:
    """All of it as HTML that JupyterLab, VS Code and nbconvert show; without its styles it is readable as well."""
    first, *rest = (what if mark == "✓" else sentence(what)).split("\n")
    colour = GOOD if mark == "✓" else BAD
    parts = [f'<b style="{colour}">{mark} {html.escape(name)}</b>: {_code(first)}']
    if rest:
        text = html.escape("\n".join(rest), quote=False)
        parts.append(f'<pre style="margin:0.3em 0;white-space:pre-wrap">{text}</pre>')
    if hint:
        parts.append(f"<div><i>Hint: {_code(hint)}</i></div>")
    return f'<div style="max-width:95ch">{"".join(parts)}</div>'


def _code(text: str) -> str:
    """HTML of a text, with what stands between backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text, quote=False))


def in_notebook() -> bool:
    """Whether there is a notebook that shows HTML."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return shell is not None and hasattr(shell, "kernel")


def show(plain_text: str, html_text: str) -> None:
    """One output: formatted in a notebook, else printed."""
    if not in_notebook():
        print(plain_text)
        return
    from IPython.display import display

    display({"text/plain": plain_text, "text/html": html_text}, raw=True)


def show_picture(picture: Any) -> None:
    """A picture below a message, where there is IPython to show it."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is not None:
        from IPython.display import display

        display(picture)
