"""The figures of the course that are files: which records each shows, and how it is drawn.

`python -m common generate` draws those whose records have changed; with `--check` it names them. The file says which
records it shows, so nothing has to be drawn to find out.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import plots, results, tables
from .generated import ROOT
from .roofline import Peaks

Record = dict[str, Any]


@dataclass(frozen=True)
class Figure:
    """A figure: the file it is kept in, its records out of a results file's content, and what draws them.

    optional: there is no such file as long as there are no records.
    """

    path: Path
    records: Callable[[Mapping[str, Any]], Sequence[Record]]
    draw: Callable[[Mapping[str, Any], Sequence[Record]], Any]
    optional: bool = False

    def stale(self, content: Mapping[str, Any]) -> bool:
        """Whether the file is missing, or shows other records than the content's."""
        if self.optional and not self.records(content):
            return False
        wanted = plots.digest(self.records(content))
        return not self.path.exists() or plots.digest_of(self.path) != wanted

    def write(self, content: Mapping[str, Any]) -> None:
        """Draws the file anew, on the card that all plots stand on."""
        import matplotlib as mpl

        records = self.records(content)
        with mpl.rc_context():
            plots.style()
            plots.save_svg(self.draw(content, records), self.path, records)


def _hot_network(content: Mapping[str, Any]) -> list[Record]:
    return results.find(content, suite="network", case=tables.NETWORK, mode="hot")


def _operators(content: Mapping[str, Any]) -> list[Record]:
    of_cudnn = results.find(content, suite="operators", implementation="cudnn")
    return [r for r in of_cudnn if (r["precision"], r["layout"], r["batch"]) == ("fp16", "NHWC", 256)]


def _roofline(content: Mapping[str, Any], records: Sequence[Record]) -> Any:
    title = "cuDNN, fp16, batch 256: each different step of MobileNetV2"
    return plots.roofline(plots.points(records), Peaks.recorded(content), ["fp16"], title)


def _chain(content: Mapping[str, Any]) -> list[Record]:
    return results.find(content, suite="network", case=f"{tables.NETWORK}, chain")


def _chain_drawn(content: Mapping[str, Any], records: Sequence[Record]) -> Any:
    return plots.chain(records, Peaks.recorded(content))


def _sparse(content: Mapping[str, Any]) -> list[Record]:
    return [r for r in results.find(content, suite="sparse") if r["kind"] != "activations"]


def _zeros(content: Mapping[str, Any]) -> list[Record]:
    return results.find(content, suite="sparse", kind="activations")


FIGURES = (
    Figure(ROOT / "03_cudnn_baseline" / "peers.svg", _hot_network, lambda _, records: plots.peers(records)),
    Figure(ROOT / "03_cudnn_baseline" / "roofline.svg", _operators, _roofline),
    Figure(ROOT / "06_optimize" / "chain.svg", _chain, _chain_drawn, optional=True),
    Figure(ROOT / "06_optimize" / "sparse.svg", _sparse, lambda _, records: plots.sparse(records), optional=True),
    Figure(ROOT / "06_optimize" / "zeros.svg", _zeros, lambda _, records: plots.zeros(records), optional=True),
)


def run(check: bool, figures: Sequence[Figure] = FIGURES, content: Mapping[str, Any] | None = None) -> bool:
    """Draws what is stale, or with `check` only names it. Whether all is well afterwards."""
    content = results.load(results.path_of(tables.CARD)) if content is None else content
    fine = True
    for figure in figures:
        if not figure.stale(content):
            continue
        if check:
            print(f"{figure.path.name} is stale: python -m common generate")
            fine = False
        else:
            figure.write(content)
            print(f"{figure.path.name}: drawn")
    return fine
