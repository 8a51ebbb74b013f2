"""Search of int8 tiles within a network: python -m common tune --in-network SECONDS --dtype int8.

What common.bench.tuning_network does for the network after quantization. Each block's candidates are first timed alone;
the fastest ones, and separate kernels, are tried within the network, whose logits must not change in any bit.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from .. import topology, weights
from ..network import Network
from ..optimize.search import Timer
from ..optimize.tiles_int8 import FoundInt8, Int8Block, Int8Tile, chosen_int8, key_of, remember
from ..quantize import IntegerKernels, quantize
from .peers import CALIBRATION
from .pictures import pictures
from .tuning_int8 import TimedInt8, describe, time_tiles
from .tuning_network import SLOW, Trial, Trials

FASTEST = 6  # of a block's tiles, by their times alone, that are tried within the network


@dataclass(frozen=True)
class Alone:
    """A block's tiles timed alone: `candidates`, the fastest first; None: separate kernels."""

    timed: TimedInt8 | None
    candidates: list[Int8Tile | None] = field(default_factory=list)

    @classmethod
    def of(cls, timed: TimedInt8 | None) -> "Alone":
        """The candidates of what was timed; of a block without a right tile only separate kernels."""
        if timed is None:
            return cls(None, [None])
        ranked: list[tuple[float, Int8Tile | None]] = sorted(((us, tile) for tile, us in timed.us.items()), key=_us)
        close = [pair for pair in ranked[:FASTEST] if pair[0] <= SLOW * ranked[0][0]]
        return cls(timed, [tile for _, tile in sorted([*close, (timed.separate_us, None)], key=_us)])


def _us(pair: tuple[float, Int8Tile | None]) -> float:
    return pair[0]


class Int8Trials(Trials):
    """A quantized network at one batch size, as Trials. model: in float32; it is quantized as bench's is.

    tried: tiles of a block that are timed alone. timer: as for search.search, for these.
    """

    def __init__(
        self, model: Any, batch: int, tried: int, timer: Timer | None = None, console: Console | None = None
    ) -> None:
        self._tried, self._timer, self._console = tried, timer, console or Console(highlight=False)
        self._alone: dict[Int8Block, Alone] = {}
        super().__init__(model, "int8", batch)

    @property
    def tolerance(self) -> float:
        """0: every bit is to be the same."""
        return 0.0

    def network(self, model: Any, like: Any) -> Network:
        """The network whose tiles `_tile` chooses."""
        graph, parameters = weights.fold_batch_norm(*topology.read_onnx_with_parameters(model))
        x = pictures(CALIBRATION, graph.input_shape[1:], seed=1)
        quantized = quantize(graph, parameters, x, ranges="percentile").model()
        return Network(quantized, IntegerKernels(optimize=replace(like, fuse_int8=self._tile)), replay=False)

    def of_network(self, block: Int8Block, batch: int, *of: str) -> Int8Tile | None:
        """The tile that networks use."""
        return chosen_int8(block, batch)

    def by_time(self, used: Mapping[Int8Block, int]) -> list[Int8Block]:
        """Blocks in the order of their times alone, the longest first."""

        def us(block: Int8Block) -> float:
            timed = self._timed(block).timed
            return min(timed.separate_us, *timed.us.values()) if timed else 0.0

        return sorted(used, key=lambda block: -used[block] * us(block))

    def _timed(self, block: Int8Block) -> Alone:
        if block not in self._alone:
            timed = time_tiles(block, self.batch, self._tried, self._timer, [self.of_network(block, self.batch)])
            for text in timed.wrong if timed else ("no candidate was right",):
                self._console.print(f"{key_of(block)}: left out: {escape(text)}", soft_wrap=True)
            self._alone[block] = Alone.of(timed)
        return self._alone[block]

    def compiled(self, times: Any, most: int) -> Callable[[Int8Block], list[Int8Tile | None]]:
        """A function that returns the candidates of a block; those of the blocks of now are timed here."""
        for block in self.blocks({}):
            self._timed(block)
        return lambda block: self._timed(block).candidates

    def named(self, block: Int8Block) -> str:
        """A block in words."""
        return key_of(block)

    def described(self, tile: Int8Tile | None) -> str:
        """A tile in words."""
        return describe(tile)

    def text(self, tile: Int8Tile) -> str:
        """A tile as in the file of trials."""
        return describe(tile)

    def keep(self, trial: Trial, save_to: Path | None, timer: Timer | None = None) -> tuple[str, ...]:
        """Cache the tile of a trial, and keep it in the further file; with its time alone.

        Returns why it could not be kept, if it is wrong alone.
        """
        timed = self._timed(trial.block).timed
        fused = trial.tile or trial.before
        assert fused is not None  # one of the two differs from "separate kernels"
        if timed is None or fused not in timed.us:
            return (f"{describe(fused)}: other bits than the separate kernels",)
        found = FoundInt8(
            trial.block, self.batch, fused, timed.us[fused], timed.separate_us, timed.rule_us,
            fuse=trial.tile is not None,
        )  # fmt: skip
        for path in (None, *([save_to] if save_to else [])):
            remember([found], path)
        return ()
