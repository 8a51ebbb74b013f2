"""Text tables, and text that is safe to print."""

from collections.abc import Collection, Sequence

# The name under which this package was imported first: common, or mobilenet_engine where it is installed from a wheel
PACKAGE_NAME = __name__.partition(".")[0]


def aligned(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """One line per row, columns padded to their widest cell and two spaces apart.

    right: indices of the columns to align at the right. All rows must have the same length, and there must be one.
    """
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            text.rjust(width) if column in right else text.ljust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def printable(text: object, limit: int | None = None) -> str:
    r"""str(text) on one line, for names from files: control characters ("\x1b"), line ends and surrogates are escaped.

    limit: largest number of characters; longer text is truncated and ends in "…".
    """
    shown = str(text)
    if limit is not None and len(shown) > limit:
        shown = shown[: limit - 1] + "…"
    if not shown.isprintable():
        shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in shown)
    return shown if limit is None or len(shown) <= limit else shown[: limit - 1] + "…"
