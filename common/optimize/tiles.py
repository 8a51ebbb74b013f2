"""The tile of a block: found by a search on this card, else shipped for it, else chosen by a rule.

    tile = chosen(block, batch, "float16")                None: separate kernels are faster, or no tile is possible
    remember([found])                                     stores results of search.py for `chosen`

Search results are stored in cuda.cache_dir(), one file per card: {"card", "driver", "sources", "found": {kind: {block:
{batch: {"tile", "us", "unfused_us", "predicted_us"}}}}}; kind: of KINDS, "float32 halves" for tiles of that arithmetic,
else the dtype. A file is valid only for its card, driver and sources; another
one, or one that cannot be read, is ignored with a warning. tiles.json has the same format and is valid on a card of its
name with any driver. For a batch size without a result, the nearest batch size with one is used: the smallest ratio
between the two, and the larger one if two are equally near.
"""

import dataclasses
import functools
import hashlib
import json
import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .. import cuda
from ..files import replacing
from ..kernels.ladder import INCLUDE
from ..measure import environment
from ..text import PACKAGE_NAME, printable
from . import cost, generate
from .features import missing
from .generate import Block, Geometry, Tile, ceil_div

SHIPPED = Path(__file__).with_name("tiles.json")
KINDS = (*generate.TYPES, "float32 halves")
MAY_BE_0 = ("vector", "persistent", "chained", "warpgroups", "alone", "streams", "rows", "early")  # of a tile's numbers


# ---- The rule

WASTE = 1.5  # largest ratio of computed hidden channels, padding included, to hidden channels


@functools.lru_cache(maxsize=4096)
def _rule(block: Block, batch: int, itemsize: int, processors: int, memory: int, clusters: bool) -> Tile | None:
    known: dict[Tile, tuple[float, Tile | None]] = {}

    def time_of(wanted: Tile) -> tuple[float, Tile | None]:
        """(predicted µs, the tile with its other fields filled in); (infinity, None) if it is not possible."""
        if wanted not in known:
            known[wanted] = math.inf, None
            tile = _filled(block, wanted, batch, itemsize, processors, memory)
            if tile is not None:
                known[wanted] = cost.predicted(block, tile, itemsize, batch, processors, memory), tile
        return known[wanted]

    def descended(wanted: Tile) -> tuple[float, Tile | None]:
        """Steepest descent: move to the best neighbour until none is better."""
        while True:
            best = min(_neighbours(block, wanted, batch, clusters), key=lambda tile: time_of(tile)[0], default=wanted)
            if not time_of(best)[0] < time_of(wanted)[0]:
                return time_of(wanted)
            wanted = best

    starts: dict[tuple[int, int], Tile] = {}  # (tile_h, tile_w) → the best seed of that size
    for seed in sorted(_seeds(block, batch), key=lambda tile: time_of(tile)[0]):
        starts.setdefault((seed.tile_h, seed.tile_w), seed)
    return min(map(descended, list(starts.values())[:2]), key=lambda pair: pair[0])[1]


def rule(block: Block, batch: int, itemsize: int) -> Tile | None:
    """A tile for this card by the cost model alone: steepest descent from a few tiles that suit most blocks.

    itemsize: bytes per element. Takes about ten milliseconds; results are cached. None if no tile fits, or if an array
    has 2³¹ or more elements.
    """
    if _too_large(block, batch):
        return None
    clusters = cuda.compute_capability() >= 90
    return _rule(block, batch, itemsize, cuda.multiprocessors(), cuda.shared_memory(), clusters)


def _too_large(block: Block, batch: int) -> bool:
    return batch * max(math.prod(block.input_shape), block.outputs * math.prod(block.out_size)) >= 2**31


def _filled(block: Block, tile: Tile, batch: int, itemsize: int, processors: int, memory: int) -> Tile | None:
    """The tile with vector, expand_m, project_n and blocks that fit; None if it is not possible."""
    g = Geometry(block, tile, itemsize)
    wasted = g.slices * tile.slice * tile.split > WASTE * block.hidden and tile.slice > 32
    if wasted or tile.warps > 16 or g.shared > memory:
        return None
    at_once = max(1, cost.resident_blocks(g, memory, tile.blocks))
    best = cost.within_registers(block, dataclasses.replace(tile, blocks=at_once), itemsize)
    if best is None and g.pixels_out <= 2:  # too few pixels per lane for the register model
        best = tile
    return best if best is not None and Geometry(block, best, itemsize).problem(memory) is None else None


def _seeds(block: Block, batch: int) -> Iterable[Tile]:
    """Starting points of the descent; nearly always one of them fits."""
    out_h, out_w = block.out_size
    for h, w in dict.fromkeys((min(h, out_h), min(w, out_w)) for h, w in ((14, 14), (7, 7), (4, 8), (2, 4))):
        for warps, pixel_warps in ((2, 1), (4, 1), (4, 2)):
            channels = 16 * warps // pixel_warps
            stages = min(2, ceil_div(block.hidden, channels))
            yield Tile(h, w, slice=channels, stages=stages, warps=warps, pixel_warps=pixel_warps, blocks=2)


def _neighbours(block: Block, tile: Tile, batch: int, clusters: bool) -> Iterable[Tile]:
    """The tiles that differ from `tile` in one choice."""
    out_h, out_w = block.out_size
    across = tile.warps // tile.pixel_warps
    planes = tile.slice // 16 // across
    tiles = ceil_div(batch, tile.images) * ceil_div(out_h, tile.tile_h) * ceil_div(out_w, tile.tile_w)

    def made(**changes: int) -> Iterable[Tile]:
        new = dataclasses.replace(tile, **changes)  # type: ignore[arg-type]
        per = ceil_div(block.hidden, new.slice * new.split)
        strips = [new.strip] if new.tile_h % new.strip == 0 else [1]
        if "strip" not in changes and new.tile_h != tile.tile_h:
            strips = [n for n in (2, 4, 7) if new.tile_h % n == 0] or [1]
        for strip in strips:
            yield dataclasses.replace(new, strip=strip, stages=max(1, min(new.stages, per) if per > 1 else 1))

    for h in {1, 2, 4, 7, 8, 14, 16, out_h} - {tile.tile_h}:
        if h <= min(out_h, 28) and (tile.images == 1 or h == out_h):
            yield from made(tile_h=h)
    for w in {4, 7, 8, 14, 16, 28, out_w} - {tile.tile_w}:
        if w <= min(out_w, 28) and (tile.images == 1 or w == out_w):
            yield from made(tile_w=w)
    if (tile.tile_h, tile.tile_w) == (out_h, out_w) and tile.split == 1 and block.expand != "stem":
        for images in (1, 2, 4):
            if images <= batch and images != tile.images:
                yield from made(images=images)
    for split in (1, 2, 3, 4, 6, 8) if clusters and tile.images == 1 and tiles < 200 else (1,):
        if split != tile.split:
            yield from made(split=split)
    for a, p, n in ((across * f, tile.pixel_warps, planes) for f in (2, 3)):
        yield from made(slice=16 * a * n, warps=a * p)
    for f in (2, 3):
        if across % f == 0:
            yield from made(slice=16 * across // f * planes, warps=across // f * tile.pixel_warps)
            yield from made(slice=tile.slice, warps=across // f * tile.pixel_warps)  # fewer warps, more planes
            yield from made(warps=tile.warps, pixel_warps=tile.pixel_warps * f)
    for n in {1, 2, 3, 4} - {planes}:
        yield from made(slice=16 * across * n)
    for p in {1, 2, 4, 8} - {tile.pixel_warps}:
        yield from made(warps=across * p, pixel_warps=p)
    per = ceil_div(block.hidden, tile.slice * tile.split)
    for stages in {2, 3, per} - {tile.stages}:
        if stages <= min(per, 6):
            yield from made(stages=stages)
    for strip in {1, 2, 4, 7, 8} - {tile.strip}:
        if tile.tile_h % strip == 0:
            yield from made(strip=strip)
    for blocks in {1, 2, 3, 4, 6} - {tile.blocks}:
        yield from made(blocks=blocks)


# ---- Results on disk


def kind_of(dtype: str, arithmetic: str) -> str:
    """The kind, of KINDS, of tiles for a dtype and an arithmetic."""
    return f"{dtype} {arithmetic}" if (dtype, arithmetic) == ("float32", "halves") else dtype


@dataclass(frozen=True)
class Problem:
    """What a search is for: a block, a batch size, a dtype, "float32" or "float16", and the arithmetic of its tiles."""

    block: Block
    batch: int
    dtype: str
    arithmetic: str = "tf32x3"

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return np.dtype(self.dtype).itemsize

    @property
    def kind(self) -> str:
        """Of KINDS."""
        return kind_of(self.dtype, self.arithmetic)

    @property
    def programmatic(self) -> bool:
        """Whether kernels are timed with programmatic launches, as networks use them: if the card has them."""
        return missing("programmatic launches") is None


@dataclass(frozen=True)
class Found:
    """The result of a search.

    tile           the fastest correct tile; None if the separate kernels are faster
    us             its microseconds, or those of `best`
    unfused_us     microseconds of the separate kernels
    predicted_us   microseconds of `best` by the cost model
    best           the fastest correct tile, even if the separate kernels are faster
    tried          number of tiles tried
    wrong          descriptions of tiles with a wrong result
    failed         descriptions of tiles that could not be compiled or launched
    """

    problem: Problem
    tile: Tile | None
    us: float
    unfused_us: float
    predicted_us: float
    best: Tile | None = None
    tried: int = 0
    wrong: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()

    @property
    def gain(self) -> float:
        """Speed-up of the fastest tile over the separate kernels."""
        return self.unfused_us / self.us


@dataclass
class Table:
    """The tiles of one card: {kind: {block: {batch: entry}}}, all keys as str."""

    found: dict[str, dict[str, dict[str, dict[str, Any]]]] = field(default_factory=dict)

    def nearest(self, block: Block, batch: int, kind: str) -> tuple[float, Tile | None] | None:
        """(the ratio of the batch sizes, the tile) of the nearest batch size whose tile fits, None without a result.

        Tile None: separate kernels.
        """
        of_block = self.found.get(kind, {}).get(str(block), {})
        itemsize, memory = np.dtype(kind.split()[0]).itemsize, cuda.shared_memory()

        def ratio(name: str) -> float:
            return max(int(name) / batch, batch / int(name))

        for name in sorted(of_block, key=lambda n: (ratio(n), -int(n))):
            made = of_block[name]["tile"]
            if made is None:
                return ratio(name), None
            tile = Tile(**made)
            fits = tile.images <= batch and Geometry(block, tile, itemsize).problem(memory) is None
            if fits and (tile.split == 1 or cuda.compute_capability() >= 90):
                return ratio(name), tile
        return None


def _read(path: Path) -> dict[str, Any]:
    """A file's content, checked. ValueError, TypeError, KeyError, … if it is invalid, OSError if it cannot be read."""
    content = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict) or not isinstance(content.get("found"), dict) or "card" not in content:
        raise ValueError('it must hold {"card": …, "found": {…}}')
    for kind, blocks in content["found"].items():
        if kind not in KINDS:
            raise ValueError(f"dtype must be one of {', '.join(KINDS)}, got {kind!r}")
        for batches in blocks.values():
            for batch, entry in batches.items():
                if int(batch) < 1:
                    raise ValueError(f"batch must be at least 1, got {batch}")
                if entry["tile"] is not None:
                    tile = asdict(Tile(**entry["tile"]))
                    allowed = "halves" if kind == "float32 halves" else "tf32x3"
                    if (arithmetic := tile.pop("arithmetic")) != allowed:
                        raise ValueError(f"a tile's arithmetic for {kind} must be {allowed}, got {arithmetic!r}")
                    for name, n in tile.items():
                        least = 0 if name in MAY_BE_0 else 1
                        if not isinstance(n, int) or n < least:
                            raise ValueError(f"a tile's {name} must be an integer of at least {least}, got {n!r}")
    return content


@functools.cache
def sources() -> str:
    """A digest of the headers and the generator of the kernels."""
    own = (generate.FOLDER / name for name in ("generate.py", "fragments.py"))
    files = [*generate.headers(), *own, *sorted(INCLUDE.glob("*.h"))]
    return hashlib.sha256("".join(path.read_text(encoding="utf-8") for path in files).encode()).hexdigest()[:16]


@functools.cache
def machine() -> dict[str, str]:
    """What tuned tiles depend on: {"card", "driver", "sources"}."""
    if cuda.backend() != "gpu":
        return {"card": "the simulator", "driver": "none", "sources": sources()}
    here = environment.environment()
    return {"card": here["card"], "driver": str(here["driver"]), "sources": sources()}


def cache_path() -> Path:
    """The file of search results for this card."""
    return cuda.cache_dir() / f"tiles-{'-'.join(machine()['card'].lower().split())}.json"


_tables: dict[tuple, Table] = {}  # by path, time of modification and machine


def _table(path: Path, keys: Sequence[str]) -> Table:
    """The tiles of a file; empty if it is missing or, with one warning, not valid here. keys: what must be equal."""
    try:
        stamp = (str(path), path.stat().st_mtime_ns, *machine().values())
    except OSError:
        return Table()
    if stamp in _tables:
        return _tables[stamp]
    made = Table()
    try:
        content = _read(path)
        other = [
            f"{key} {content.get(key)!r}, here {machine()[key]!r}" for key in keys if content.get(key) != machine()[key]
        ]
        if not other:
            made = Table(content["found"])
        elif path != SHIPPED:
            warnings.warn(
                f"{path}: tuned for {'; '.join(other)}: it is left aside. python -m {PACKAGE_NAME} tune makes it anew",
                stacklevel=3,
            )
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        warnings.warn(f"{path} cannot be read and is left aside: {printable(error)}", stacklevel=3)
    _tables[stamp] = made
    return made


def chosen(block: Block, batch: int, dtype: str, arithmetic: str = "tf32x3") -> Tile | None:
    """The tile for a block: found on this card or shipped for it, else the rule's if predicted to be faster.

    Of found and shipped the one for the nearer batch size, and what was found here if both are equally near.

    dtype: "float32" or "float16". arithmetic: "halves" for a tile of that, where the block can have one: found or
    shipped, else as for "tf32x3". None: use separate kernels, because they are faster or because no tile is possible.
    """
    if cuda.compute_capability() < 80 or _too_large(block, batch):
        return None
    itemsize, memory = np.dtype(dtype).itemsize, cuda.shared_memory()
    kind = kind_of(dtype, arithmetic)
    tables = (_table(cache_path(), ("card", "driver", "sources")), _table(SHIPPED, ("card",)))
    if known := [found for table in tables if (found := table.nearest(block, batch, kind)) is not None]:
        return min(known, key=lambda found: found[0])[1]
    if kind != dtype:
        tile = chosen(block, batch, dtype)
        halves = None if tile is None else dataclasses.replace(tile, arithmetic=arithmetic)
        return halves if halves and Geometry(block, halves, itemsize).problem(memory) is None else tile
    tile, processors = rule(block, batch, itemsize), cuda.multiprocessors()
    return tile if tile is not None and cost.worth_it(block, tile, batch, itemsize, processors, memory) else None


def shipped(block: Block, batch: int, dtype: str, arithmetic: str = "tf32x3") -> Tile | None:
    """The tile of tiles.json for this card, with this arithmetic, or None."""
    for kind in dict.fromkeys((kind_of(dtype, arithmetic), dtype)):
        found = _table(SHIPPED, ("card",)).nearest(block, batch, kind)
        if found is not None and found[1] is not None:
            return dataclasses.replace(found[1], arithmetic=arithmetic)
    return None


def kept(block: Block, kind: str) -> dict[int, Tile]:
    """The tiles of a block and a kind, of KINDS, by batch size: those shipped for this card, and those found on it."""
    made: dict[int, Tile] = {}
    for table in (_table(SHIPPED, ("card",)), _table(cache_path(), ("card", "driver", "sources"))):
        entries = table.found.get(kind, {}).get(str(block), {})
        made |= {int(batch): Tile(**entry["tile"]) for batch, entry in entries.items() if entry["tile"] is not None}
    return made


def remember(founds: Iterable[Found], path: Path | None = None) -> Path:
    """Add search results to a file, by default cache_path(), replacing older ones; return its path.

    The file is replaced atomically. Results of another card, driver or sources are dropped. OSError if it cannot be
    written.
    """
    path = cache_path() if path is None else Path(path)
    held: dict[str, Any] = {}
    try:
        content = _read(path)
        if all(content.get(key) == value for key, value in machine().items()):
            held = content["found"]
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass
    for found in founds:
        p = found.problem
        entry = {
            "tile": None if found.tile is None else asdict(found.tile),
            **{name: round(getattr(found, name), 2) for name in ("us", "unfused_us", "predicted_us")},
        }
        held.setdefault(p.kind, {}).setdefault(str(p.block), {})[str(p.batch)] = entry
    text = json.dumps(machine() | {"found": held}, indent=1, ensure_ascii=False) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def describe(tile: Tile | None) -> str:
    """A tile in words: "7×14, 64 channels, 4 warps"; None is "separate kernels"."""
    if tile is None:
        return "separate kernels"
    more = [
        f"{tile.images} images" if tile.images > 1 else "",
        f"cluster of {tile.split}" if tile.split > 1 else "",
        f"{tile.blocks} blocks per multiprocessor" if tile.blocks > 1 else "",
        "persistent" if tile.persistent else "",
        "pairs of halves" if tile.arithmetic == "halves" else "",
        "chained" if tile.chained else "",
        f"{tile.warpgroups} warpgroups" if tile.warpgroups else "",
        "single warps" if tile.alone else "",
        "streaming weights" if tile.streams else "",
        "rows" if tile.rows else "",
        "lets the next kernel begin first" if tile.early else "",
    ]
    return ", ".join(
        [f"{tile.tile_h}×{tile.tile_w}", f"{tile.slice} channels", f"{tile.warps} warps", *filter(None, more)]
    )
