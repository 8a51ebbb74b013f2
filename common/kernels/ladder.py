"""A ladder: the rungs of one operator, each a .cu file, compiled for a dtype when first asked for."""

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .. import cuda

# the kernels' element type scalar_t, by the arrays' dtype
ELEMENT_TYPES: dict[np.dtype, str] = {np.dtype(np.float32): "float", np.dtype(np.float16): "__half"}


class Ladder:
    """The .cu files of one operator's folder, `1_naive.cu`, `2_….cu`, …: a rung each, in the order of the lesson.

    tiles: for each rung, the numbers (tile sizes and switches) that become its -D options.
    """

    def __init__(self, launcher: str, tiles: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        folder = Path(launcher).parent
        self.operator = folder.name
        files = sorted(folder.glob("[0-9]*_*.cu"), key=lambda path: int(path.name.split("_")[0]))
        self._files = {path.stem.split("_", 1)[1]: path for path in files}
        self._tiles = {name: dict((tiles or {}).get(name, {})) for name in self._files}

    @property
    def variants(self) -> list[str]:
        """The rungs' names, from the first to the last."""
        return list(self._files)

    def tile(self, variant: str) -> dict[str, Any]:
        """The -D numbers of a rung."""
        return self._tiles[self.choose(variant)]

    def choose(self, variant: str | None) -> str:
        """The rung that is asked for by name, or the default: the last. ValueError if there is none of that name."""
        if variant is None:
            return self.variants[-1]
        if variant not in self._files:
            raise ValueError(f"{self.operator}: variant must be one of {self.variants}, got {variant!r}")
        return variant

    def kernel(self, variant: str | None, dtype: np.dtype, **switches: Any) -> Any:
        """The compiled kernel of a rung, which has the operator's name, for arrays of `dtype`."""
        return self._compile(self.choose(variant), np.dtype(dtype), tuple(sorted(switches.items())), cuda.backend())

    @functools.lru_cache(maxsize=256)  # noqa: B019 (ladders live as long as the program)
    def _compile(self, variant: str, dtype: np.dtype, switches: tuple, backend: str) -> Any:
        options = self.options(variant, dtype, dict(switches))
        return cuda.RawKernel(self._files[variant].read_text(), self.operator, options=options)

    def options(self, variant: str, dtype: np.dtype, switches: Mapping[str, Any]) -> tuple[str, ...]:
        """NVRTC's options for a rung: the element type, its tile sizes, and the launch's switches."""
        defines: dict[str, Any] = {"scalar_t": ELEMENT_TYPES[np.dtype(dtype)]} | self._tiles[variant] | dict(switches)
        return ("-std=c++17", *(f"-D{name}={value}" for name, value in defines.items()))

    def sources(self) -> Iterator[tuple[Path, tuple[str, ...]]]:
        """Every file with the options of every dtype, to compile it without a launch."""
        for variant, path in self._files.items():
            for dtype in ELEMENT_TYPES:
                yield path, self.options(variant, dtype, {})
