"""Records of the suite "sparse", read for chapter 06: from how many zeros on skipping pays, shape by shape.

needed(timed)                                        zeros needed, by (precision, pattern), a value per shape
against(timed, "fp32", "elements", "ballot", "cudnn")   the same for one scheme against one other implementation
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ..optimize.sparse import PREFIX
from .results import grouped
from .tables import break_even, sparse_times

Records = Sequence[Mapping[str, Any]]


def swept(timed: Records) -> dict[tuple[str, str], list[list[Mapping[str, Any]]]]:
    """By (precision, pattern), the records of each shape and batch that was timed at several shares of zeros."""
    found: dict[tuple[str, str], list[list[Mapping[str, Any]]]] = {}
    for (precision, pattern, _, _), group in grouped(timed, "precision", "pattern", "shape", "batch").items():
        if len(sparse_times(map(dict, group), pattern)) > 1:
            found.setdefault((precision, pattern), []).append(group)
    return found


def needed(timed: Records) -> dict[tuple[str, str], list[float | None]]:
    """By (precision, pattern), the share of zeros that each shape and batch needs; None: skipping never pays.

    Skipping pays from where the fastest kernel that skips zeros is faster than every one that skips nothing.
    """
    return {
        key: [break_even(map(dict, group), key[1], "dense") for group in groups] for key, groups in swept(timed).items()
    }


def against(timed: Records, precision: str, pattern: str, scheme: str, other: str) -> list[float | None]:
    """The share of zeros from which on `scheme` is faster than the implementation `other`, for each dense shape.

    Shapes with groups, and those where the scheme was not timed, are left out. None: never.
    """
    names = {PREFIX + scheme: PREFIX + scheme, other: "cudnn"}  # break_even compares with what is called cudnn
    found = []
    for group in swept(timed).get((precision, pattern), []):
        pair = [{**r, "implementation": names[r["implementation"]]} for r in group if r["implementation"] in names]
        if "groups" not in group[0]["shape"] and any(r["implementation"] == PREFIX + scheme for r in pair):
            found.append(break_even(pair, pattern))
    return found
