"""The lines of README files that show a stored plot, with what it shows as alternative text, made from its records.

    <!-- generated: picture-peers -->
    ![Microseconds per batch …](peers.svg)
    <!-- /generated -->

The plots themselves are those of figures.py.
"""

import functools
from collections.abc import Callable, Sequence
from statistics import median_high

from . import figures, race, results, tables
from .results import Record, Results, grouped
from .sparsity import needed


def _join(words: Sequence[str]) -> str:
    return "; ".join(words)


def peers(records: Sequence[Record]) -> str:
    """Who is the lowest in each panel, of all and of the libraries, at the smallest and the largest batch."""
    said = []
    for precision in tables.PRECISIONS:
        for batch in (tables.BATCHES[0], tables.BATCHES[-1]):
            of = [r for r in records if (r["precision"], r["batch"]) == (precision, batch)]
            best = [
                results.fastest(r for r in of if r["implementation"] in tables.IMPLEMENTATIONS and fits(r))
                for fits in (lambda r: True, lambda r: r["implementation"] != "ours")
            ]
            words = [f"{tables.IMPLEMENTATIONS[r['implementation']]} {tables.us(r['median_us'])} µs" for r in best if r]
            if words:
                said.append(f"{precision}, batch {batch}: {', of the libraries '.join(dict.fromkeys(words))}")
    return (
        "Microseconds per batch over the batch size, one panel per precision, one line per implementation with its"
        f" fastest layout and launch. The lowest: {_join(said)}"
    )


def chain(records: Sequence[Record]) -> str:
    """The first, the fastest and the last rung of each panel."""
    said = []
    for (batch, precision), of in sorted(grouped(records, "batch", "precision").items()):
        ordered = sorted(of, key=lambda r: r["rung"])
        fastest = min(ordered, key=lambda r: r["median_us"])
        shown = dict.fromkeys(
            f"{r['implementation']} {tables.us(r['median_us'])} µs" for r in (ordered[0], fastest, ordered[-1])
        )
        said.append(f"batch {batch}, {precision}: {', '.join(shown)}")
    return (
        "Times of the network from naive kernels to fused blocks and one persistent kernel, one dot per rung on a"
        " logarithmic axis that begins at the roof, one panel per batch and precision. The first rung, the fastest and"
        f" the last: {_join(said)}"
    )


def sparse(records: Sequence[Record]) -> str:
    """For how many shapes skipping pays, by precision and pattern, and from where on for half of these."""
    said = []
    for (precision, pattern), found in needed(list(records)).items():
        known = [one for one in found if one is not None]
        middle = f", half of these from {100 * median_high(known):.0f} % on" if known else ""
        said.append(f"{precision}, zero {pattern}: {len(known)} of {len(found)}{middle}")
    return (
        "Left, the share of pairs of a shape and a batch size for which a kernel that skips zeros beats every kernel"
        f" that skips none, against the share of zeros: {_join(said)}. Right, times against the share of zeros for one"
        " large shape, one line per kernel"
    )


def zeros(records: Sequence[Record]) -> str:
    """The largest share of zeros of any convolution, by what must be zero together, network by network."""
    named = {"elements": "single elements", "groups_32": "32 channels of a pixel", "pixels": "whole pixels"}
    said = []
    for (network, label), of in grouped(records, "network", "label").items():
        most = ", ".join(f"{words} {100 * max(r[key] for r in of):.0f} %" for key, words in named.items())
        said.append(f"{network}, {label}: {most}")
    return f"The share of zeros that each convolution reads, one panel per network. The most of any: {_join(said)}"


PICTURES: dict[str, Callable[[Sequence[Record]], str]] = {
    "peers.svg": peers, "chain.svg": chain, "sparse.svg": sparse, "zeros.svg": zeros,
}  # fmt: skip


def line(name: str, recorded: Results) -> str:
    """The line of Markdown that shows one of PICTURES, for a README beside it."""
    (figure,) = (one for one in figures.FIGURES if one.path.endswith(f"/{name}"))
    records = figure.records(recorded)
    return f"![{PICTURES[name](records)}]({name})" if records else tables.NOT_YET


def texts() -> dict[str, Callable[[], str]]:
    """The functions that generate these lines, and figures of the races, by the name in their markers."""
    recorded = results.load(tables.CARD)
    lines: dict[str, Callable[[], str]]
    lines = {f"picture-{name.partition('.')[0]}": functools.partial(line, name, recorded) for name in PICTURES}
    lines["whole-over-sum"] = functools.partial(race.whole_over_sum, recorded)
    return lines | {"whole-beside-sum": functools.partial(race.whole_beside_sum, recorded)}
