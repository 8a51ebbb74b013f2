"""Text between markers that is made from a results file: `<!-- generated: trace -->` … `<!-- /generated -->`."""

import re


def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- generated: {re.escape(name)} -->\n)(.*?)(\n<!-- /generated -->)", re.DOTALL)


def between(text: str, name: str) -> str:
    """What stands between the markers of this name. ValueError unless they are there once."""
    found = _pattern(name).findall(text)
    if len(found) != 1:
        raise ValueError(
            f"{len(found)} parts are marked <!-- generated: {name} --> … <!-- /generated -->, expected one"
        )
    return found[0][1]


def replaced(text: str, name: str, part: str) -> str:
    """The text with something else between these markers."""
    between(text, name)
    return _pattern(name).sub(lambda match: match[1] + part + match[3], text)
