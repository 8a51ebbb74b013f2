"""The message of a check: plain text for a terminal, HTML for a notebook."""

import html
import re
import sys
import textwrap
from typing import Any

WIDTH = 95  # characters per line in a terminal
ERRORS = 3  # compiler errors shown; later ones often follow from the first

# JupyterLab's colours, else VS Code's, else fixed ones. Mixing in the text colour keeps the contrast in light and dark
# themes. An untrusted notebook drops the styles.
_COLOUR = "color:color-mix(in srgb,{} 70%,currentColor)"
BAD = _COLOUR.format("var(--jp-error-color1,var(--vscode-errorForeground,#d32f2f))")
GOOD = _COLOUR.format("var(--jp-success-color0,var(--vscode-gitDecoration-addedResourceForeground,#388e3c))")

_PLACE = re.compile(r"^line (\d+): (.*)$")


def sentence(text: str) -> str:
    """The text with a full stop, unless it ends with punctuation or has several lines."""
    text = text.rstrip()
    return text if text.endswith((".", "!", "?", "…", "`")) or "\n" in text else f"{text}."


def message(mark: str, name: str, what: str, hint: str) -> str:
    """The message as plain text, unwrapped. After a message of several lines the hint is on a line of its own."""
    what = sentence(what)
    between = "\n" if "\n" in what else " "
    return f"{mark} {name}: {what}" + (f"{between}Hint: {hint}" if hint else "")


def errors(what: str) -> str:
    """A compiler's message, whose errors begin with "line N: ", cut to the first ERRORS errors."""
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
    """The message for a terminal: wrapped at WIDTH characters, compiler output left as it is."""
    first, *rest = sentence(what).split("\n")
    lines = [_wrapped(f"{mark} {name}: {first}"), *rest]
    if hint:
        lines.append(_wrapped(f"Hint: {hint}"))
    return "\n".join(lines)


def _wrapped(text: str) -> str:
    return textwrap.fill(text, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def formatted(mark: str, name: str, what: str, hint: str) -> str:
    """The message as HTML for JupyterLab, VS Code and nbconvert; it stays readable without its styles."""
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
    """A text as HTML, with backticks turned into <code>."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text, quote=False))


def in_notebook() -> bool:
    """Whether this process is a notebook's kernel, which can show HTML."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return shell is not None and hasattr(shell, "kernel")


def show(plain_text: str, html_text: str) -> None:
    """Display the HTML in a notebook, else print the plain text."""
    if not in_notebook():
        print(plain_text)
        return
    from IPython.display import display

    display({"text/plain": plain_text, "text/html": html_text}, raw=True)


def show_picture(picture: Any) -> None:
    """Display a picture below the message, if IPython is running."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is not None:
        from IPython.display import display

        display(picture)
