"""The figures of the course that are stored as files: the records that each shows, and how it is drawn.

`python -m common generate` draws the figures whose records have changed; with `--check` it names them. A file contains
a digest of its records, so nothing has to be drawn to find out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..measure.roofline import Peaks
from . import plots, results, tables
from .results import Record, Results


@dataclass(frozen=True)
class Figure:
    """A figure: its path relative to the course's folder, the records that it shows, and the function that draws them.

    optional: the file is expected only if there are records.
    """

    path: str
    records: Callable[[Results], Sequence[Record]]
    draw: Callable[[Results, Sequence[Record]], Any]
    optional: bool = False

    def stale(self, root: Path, recorded: Results) -> bool:
        """Whether the file is missing or its digest is not that of the present records. root: the course's folder."""
        records, path = self.records(recorded), root / self.path
        if self.optional and not records:
            return False
        return not path.exists() or plots.digest_of(path) != plots.digest(records)

    def write(self, root: Path, recorded: Results) -> None:
        """Draw the figure and write its file, in the style of all plots."""
        import matplotlib as mpl

        records = self.records(recorded)
        with mpl.rc_context():
            plots.style()
            plots.save_svg(self.draw(recorded, records), root / self.path, records)


def _suite(name: str, keep: Callable[[Record], bool]) -> Callable[[Results], Sequence[Record]]:
    return lambda recorded: [r for r in recorded.suite(name) if keep(r)]


FIGURES = (
    Figure(
        "03_cudnn_baseline/peers.svg",
        _suite("network", lambda r: (r["case"], r["mode"]) == (tables.NETWORK, "hot")),
        lambda _, records: plots.peers(records),
    ),
    Figure(
        "03_cudnn_baseline/roofline.svg",
        _suite(
            "operators",
            lambda r: (r["implementation"], r["precision"], r["layout"], r["batch"]) == ("cudnn", "fp16", "NHWC", 256),
        ),
        lambda recorded, records: plots.roofline(
            plots.points(records), Peaks.recorded(recorded), ["fp16"],
            "cuDNN, fp16, batch 256: each different step of MobileNetV2",
        ),
    ),
    Figure(
        "06_optimize/chain.svg",
        _suite("network", lambda r: r["case"] == f"{tables.NETWORK}, chain"),
        lambda recorded, records: plots.chain(records, Peaks.recorded(recorded)),
        optional=True,
    ),
    Figure(
        "06_optimize/sparse.svg",
        _suite("sparse", lambda r: r["kind"] != "activations"),
        lambda _, records: plots.sparse(records),
        optional=True,
    ),
    Figure(
        "06_optimize/zeros.svg",
        _suite("sparse", lambda r: r["kind"] == "activations"),
        lambda _, records: plots.zeros(records),
        optional=True,
    ),
)  # fmt: skip


def run(
    check: bool, figures: Sequence[Figure] = FIGURES, recorded: Results | None = None, root: Path | None = None
) -> bool:
    """Draw the stale figures, or with `check` only print their paths. Returns whether none is stale afterwards.

    recorded: by default the H200's results. root: by default the course's folder.
    """
    recorded, root, fine = recorded or results.load(tables.CARD), root or results.course(), True
    for figure in figures:
        name = Path(figure.path).name
        if figure.stale(root, recorded) and check:
            print(f"{name} is stale: python -m common generate")
            fine = False
        elif figure.stale(root, recorded):
            figure.write(root, recorded)
            print(f"{name}: drawn")
    return fine
