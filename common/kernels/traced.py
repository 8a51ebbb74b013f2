"""The launches of an operator's call, each traced: with the tiles, grid and shared memory that a card gets."""

from collections.abc import Callable, Collection
from typing import Any

from .. import cuda
from ..cuda.device import as_if
from ..cuda.machine_code import CARDS
from ..cuda.report import Report
from .ladder import Launch, recorded


def trace_call(call: Callable[[], Any], blocks: int | Collection[int] | None, card: str = "H200") -> list[Report]:
    """A trace of each launch that a call of an operator makes, in their order.

    blocks: as of cuda.trace, for every launch, and only these run. None: all; outputs are written as by the call.
    card: whose launch it is, also where there is no such card.
    """
    there = CARDS[card]
    with as_if(int(there.arch[3:]), there.multiprocessors, there.shared_block), recorded() as launches:
        call()
        made = [(launch, launch.compiled()) for launch in launches if isinstance(launch, Launch)]
    reports = []
    for launch, kernel in made:
        cuda.allow_shared(kernel, launch.shared_limit)
        arguments = launch.grid, launch.block, launch.args, launch.shared_mem, blocks
        reports.append(cuda.trace(kernel, *arguments, alone=blocks is not None))
    return reports
