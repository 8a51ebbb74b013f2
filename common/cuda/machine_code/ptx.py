"""The PTX of one line of the source, from NVRTC's text with its markers of lines."""

import re

_PLACE = re.compile(r"^\s*\.loc\s+\d+ (\d+) \d+(?:.*inlined_at \d+ (\d+))?")
_ENDS = (".", "//", "}", "{")


def of_line(text: str, kernel: str, line: int | None) -> str:
    """The PTX instructions of a kernel that belong to a line of its source, or all of them with None.

    Instructions of a function that is called there belong to the calling line. ValueError for a line without any.
    """
    start = re.search(rf"^\.visible \.entry {re.escape(kernel)}\(", text, re.M)
    if start is None:
        raise ValueError(f"there is no kernel {kernel!r} in the PTX")
    found, here = [], 0
    for row in text[start.end() :].partition("\n{\n")[2].splitlines():
        if row.startswith("}"):
            break
        if place := _PLACE.match(row):
            here = int(place[2] or place[1])
        elif row.strip() and not row.strip().startswith(_ENDS) and line in (None, here):
            found.append(re.sub(r"[ \t]+", " ", row.strip()))
        elif line is None and re.match(r"\$L\w+:", row):
            found.append(row)
    if not found:
        raise ValueError(f"line {line} has no PTX instructions")
    return "\n".join(found)
