"""A rung of a ladder as machine code: compiled and launched as on a card, without one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import cuda
from ..cuda import layout as layouts
from ..cuda.device import as_if
from ..cuda.machine_code import CARDS, Inspection
from ..cuda.machine_code.inspection import inspect_source
from .ladder import Launch, recorded


@dataclass(frozen=True)
class Rung:
    """A launch as a card's launcher makes it. origin: (source, options) of its kernel; None if it is of no ladder."""

    launch: Launch
    origin: tuple[str, tuple[str, ...]] | None


def launches_on(card: str, call: Callable[[], Any]) -> list[Rung]:
    """The launches that a call of an operator makes on a card of that name, "H200", with its tiles and grid.

    call: makes its arrays itself; they have shapes and no memory.
    """
    there = CARDS[card]
    with (
        as_if(int(there.arch[3:]), there.multiprocessors, there.shared_block),
        cuda.shapes_only(),
        recorded() as launches,
    ):
        call()
        made = [launch for launch in launches if isinstance(launch, Launch)]
        return [Rung(launch, launch.origin() if launch.origin else None) for launch in made]  # options: for this card


def inspected(rung: Rung, card: str) -> Inspection:
    """The machine code of a launch that `launches_on` has listed. ValueError if it is none of a ladder's rung."""
    launch = rung.launch
    if rung.origin is None:
        raise ValueError(f"{launch.name} is not a rung of a ladder")
    source, options = rung.origin
    arch = next((o.removeprefix("-arch=") for o in options if o.startswith("-arch=")), CARDS[card].arch)
    kernel = launch.name.partition("/")[0]
    return inspect_source((source, options, (), False), kernel, launch.block, launch.shared_mem, arch)


def card_of(arch: str) -> str:
    """The card of an architecture: "H200" for "sm_90" and "sm_90a". ValueError if there is none in CARDS."""
    for card in CARDS.values():
        if arch in (card.arch, f"{card.arch}a"):
            return card.name
    raise ValueError(f"arch must be one of {', '.join(card.arch for card in CARDS.values())}, got {arch!r}")


# ---- A typical call of each operator: the positional arguments, shapes in words for arrays, and the others

TYPICAL: Mapping[str, tuple[Sequence[Any], dict[str, Any]]] = {
    "add": (["32 24 56 56", "32 24 56 56"], {}),
    "global_avg_pool": (["32 1280 7 7"], {}),
    "gemm": (["4096 4096", "4096 4096"], {}),
    "conv2d": (["32 3 224 224", "32 3 3 3"], {"stride": 2, "padding": 1}),
    "pointwise": (["32 96 14 14", "576 96 1 1"], {}),
    "depthwise": (["32 144 56 56", "144 1 3 3"], {"padding": 1}),
    "depthwise_backward_input": (["32 144 56 56", "144 1 3 3", (32, 144, 56, 56)], {"padding": 1}),
    "depthwise_backward_weight": (["32 144 56 56", "32 144 56 56", (3, 3)], {"padding": 1}),
    "inverted_residual": (["32 64 14 14", "384 64 1 1", "384", "384 1 3 3", "384", "64 384 1 1", "64"], {}),
    "winograd": (["32 128 28 28", "128 128 3 3"], {"padding": 1}),
    "add_int8": (["32 24 56 56:int8", "32 24 56 56:int8", (1.0, 1.0, 0.0)], {}),
    "global_avg_pool_int8": (["32 1280 7 7:int8", 1.0], {}),
    "conv2d_int8": (["32 3 224 224:int8", "32 3 3 3:int8", "32:int32", "32:float32"], {"stride": 2, "padding": 1}),
    "pointwise_int8": (["32 96 14 14:int8", "576 96 1 1:int8", "576:int32", "576:float32"], {}),
    "depthwise_int8": (["32 144 56 56:int8", "144 1 3 3:int8", "144:int32", "144:float32"], {"padding": 1}),
}


def _array(words: str, dtype: Any, layout: str) -> Any:
    """An array with a shape, "32 3 3 3", and no memory: of four dimensions in that layout.

    "32 3 3 3:int8" is of that dtype whatever is asked for, and in NHWC.
    """
    sizes, _, own = words.partition(":")
    shape, dtype, layout = tuple(map(int, sizes.split())), own or dtype, "NHWC" if own else layout
    return layouts.empty(shape, np.dtype(dtype), layout) if len(shape) == 4 else cuda.empty(shape, np.dtype(dtype))


def typical_call(
    function: Callable[..., Any], operator: str, variant: str, dtype: Any, layout: str, **named: Any
) -> Any:
    """Call an operator as TYPICAL says. named: further arguments, or others. ValueError for one that is not there."""
    if operator not in TYPICAL:
        raise ValueError(f"{operator}: give the arguments of the call, {operator} has no typical ones")
    arrays, more = TYPICAL[operator]
    given = [_array(one, dtype, layout) if isinstance(one, str) else one for one in arrays]
    return function(*given, **(more | named), variant=variant)


def inspect_rung(
    function: Callable[..., Any],
    operator: str,
    variant: str,
    args: Sequence[Any],
    dtype: Any,
    layout: str,
    arch: str,
    named: Mapping[str, Any],
) -> Inspection:
    """See kernels.inspect."""
    card = card_of(arch)

    def call() -> None:
        if args:
            function(*args, **named, variant=variant)
        else:
            typical_call(function, operator, variant, dtype, layout, **named)

    made = launches_on(card, call)
    own = [one for one in made if one.launch.name == f"{operator}/{variant}"]
    if not own:
        others = ", ".join(dict.fromkeys(one.launch.name for one in made))
        raise ValueError(f"{operator}/{variant} has no kernel of its own: it launches {others}")
    return inspected(own[0], card)
