"""Messages for faults: what stopped a launch."""

import math
from collections.abc import Sequence
from pathlib import Path

from .binding import Arguments, Fault, FaultKind
from .symbols import shared_arrays

FAR = 1 << 40  # bytes: an address at this distance from an array is unrelated to it
_FIRST_PAGES = 1 << 16  # bytes from address 0 that no system maps

_SENTENCES = {
    FaultKind.BAD_ARITHMETIC: "divided an integer by zero, or the least one by -1 (a GPU goes on with an unspecified"
    " number)",
    FaultKind.DIVIDED_BY_ZERO: "divided an integer by zero (a GPU goes on with an unspecified number)",
    FaultKind.QUOTIENT_OVERFLOW: "divided the least integer by -1, and the quotient does not fit (C++ does not define"
    " it; a GPU goes on with the least integer)",
    FaultKind.TRAP: "executed __trap()",
    FaultKind.ABORTED: "called abort()",
    FaultKind.EXITED: "called exit(), which no GPU has",
    FaultKind.WILD_ADDRESS: "went out of bounds, to an address that no memory has, far from every array; or used a"
    " vector access (float4, ...) at an address that is not a multiple of its size",
    FaultKind.NOT_COOPERATIVE: "met grid.sync() or grid_barrier(), but the launch is not cooperative:"
    " RawKernel(..., enable_cooperative_groups=True)",
    FaultKind.NOT_IN_MASK: "took part in a warp operation whose mask leaves it out",
    FaultKind.GRID_DEADLOCK: "left other blocks waiting at grid.sync() or grid_barrier(): not every block reaches it",
    FaultKind.CLUSTER_DEADLOCK: "came last to a barrier that is never complete: every block waits, some for"
    " their cluster (cluster_sync), some for the grid (grid.sync, grid_barrier)",
    FaultKind.BOX_OPEN: "opened a mailbox where one is open already: box.close() first",
    FaultKind.BOX_NOT_OPEN: "closed a mailbox that is not open",
    FaultKind.NO_MBARRIER: "used an mbarrier that was not initialised there: init(count) by one thread, with a count of"
    " at least 1, then __syncthreads; a block has at most 64",
    FaultKind.MBARRIER_OVERWRITTEN: "used an mbarrier whose memory holds something else by now",
    FaultKind.MBARRIER_FULL: "arrived at an mbarrier whose phase has all its arrivals and is not over: it arrives too"
    " often, or before the bytes of the last copy have come (it has not waited until the stage is empty)",
    FaultKind.BAD_BULK_COPY: "asked for a bulk copy whose addresses or bytes are not multiples of 16 (the target of a"
    " swizzled tile: of 128; the column of a tile counts, too)",
    FaultKind.MBARRIER_NOT_READY: "asked for a bulk copy whose mbarrier is not known to the copy unit: after init,"
    " the same thread calls mbarriers_ready()",
    FaultKind.NOT_SHARED: "gave cluster_map a pointer that does not point into its block's shared memory",
}


def describe(fault: Fault, prepared: Arguments, shared_mem: int, cluster: tuple[int, int, int], library: Path) -> str:
    """The message for a fault: which thread did what.

    prepared: the arguments of the launch. shared_mem: bytes of dynamic shared memory of the launch. cluster: blocks of
    a cluster in x, y, z. library: the kernel's library, for the names of its shared arrays.
    """
    thread = f"thread {fault.thread} of block {fault.block}"
    match FaultKind(fault.kind):
        case FaultKind.BAD_ADDRESS | FaultKind.WILD_ADDRESS if fault.address or fault.kind == FaultKind.BAD_ADDRESS:
            return f"{thread} {_touched(fault, prepared, library)}"
        case FaultKind.MISALIGNED_ADDRESS:
            place = _place(fault.address, prepared)
            return f"{thread} used a vector (float4, ...) at {place}, an address that is not a multiple of its size"
        case FaultKind.SHARED_OVERRUN:
            who = f"a thread of block {fault.block}" if fault.thread.x == 2**32 - 1 else thread
            return (
                f"{who} went out of bounds: byte {fault.address} of dynamic shared memory, "
                f"of which the launch asked for {shared_mem} (shared_mem={shared_mem})"
            )
        case FaultKind.DEADLOCK if fault.at_mbarrier:
            others = ""
            if fault.at_barrier or fault.at_collective:
                others = (
                    f"; {fault.at_barrier} threads wait at __syncthreads, {fault.at_collective} at a warp operation"
                )
            return (
                f"deadlock in block {fault.block}: {fault.text.decode(errors='replace')}{others}"
                " (mbarriers are numbered in the order of their init)"
            )
        case FaultKind.COPY_UNDER_WAY:
            return (
                f"block {fault.block} ended while a bulk copy was under way: somebody must wait for its mbarrier before"
                " the block ends, because its shared memory then belongs to another block"
            )
        case FaultKind.DEADLOCK:
            return (
                f"deadlock in block {fault.block}: {fault.at_barrier} threads wait at __syncthreads,"
                f" {fault.at_collective} at a warp operation whose mask names lanes that never arrive,"
                f" {fault.finished} have returned; every thread must reach the same barrier"
            )
        case FaultKind.NO_SUCH_RANK:
            return (
                f"{thread} asked for the shared memory of block {fault.address} of its cluster,"
                f" which has {math.prod(cluster)} (__cluster_dims__{cluster})"
            )
        case FaultKind.BOX_OVERWRITTEN:
            return (
                f"block {fault.block} wrote something else into the memory of a mailbox that it had not"
                " closed (box.close()): a GPU may put the box back there later"
            )
        case FaultKind.ASSERTION:
            return f"assertion failed: {fault.text.decode(errors='replace')}, {thread}"
        case FaultKind.STACK_OVERFLOW:
            return f"stack overflow: {thread} needs more than {fault.address:,} bytes for local variables and calls"
        case FaultKind.ENDLESS:
            return (
                f"{thread} does more than {fault.address:,} steps (memory accesses and branches) between two barriers:"
                " does the loop end?"
            )
        case FaultKind.TRACE_FULL:
            return (
                f"the memory accesses and branches between two barriers fill more than {fault.address >> 20:,} MiB at"
                f" {thread}: does every loop end? Else trace a smaller problem"
            )
        case kind:
            return f"{thread} {_SENTENCES[kind]}"


def _distance(address: int, low: int, high: int) -> int:
    return low - address if address < low else max(0, address - high + 1)


def _nearest(address: int, prepared: Arguments) -> tuple[int, str]:
    """(distance in bytes from an address to the nearest array of a launch, the element there in words)."""
    far, words = FAR, ""
    for parameter, array, start, _ in prepared.where:
        if (distance := _distance(address, start, start + array.nbytes)) < far:
            index = (address - start) // max(array.itemsize, 1)
            far = distance
            words = (
                f"index {index} of '{parameter.name}', which has {array.size} elements ({array.dtype},"
                f" shape {array.shape})"
            )
    return far, words


def _place(address: int, prepared: Arguments) -> str:
    _, words = _nearest(address, prepared)
    return words.partition(", which")[0] or f"address {address:#x}"


def _nearest_shared(fault: Fault, arrays: Sequence[tuple[int, int, str]]) -> tuple[int, str]:
    """As `_nearest`, for the block's static shared arrays (first byte, end, name)."""
    far, words = FAR, ""
    offset = fault.address - fault.shared_low
    for low, high, name in arrays if fault.shared_high else ():
        if (distance := _distance(offset, low, high)) < far:
            far, words = distance, f"byte {offset - low} of shared array '{name}', which has {high - low}"
    return far, words


def _touched(fault: Fault, prepared: Arguments, library: Path) -> str:
    """A bad address in words: a null pointer, or the nearest array and the index in it."""
    address = fault.address
    whose = f" ({' and '.join(repr(n) for n in prepared.nulls)} is None)" if prepared.nulls else ""
    if address < _FIRST_PAGES or (whose and address < 2**34):
        return f"used a null pointer{whose}" + (f", at address {address:#x}" if address else "")
    far, words = _nearest(address, prepared)
    # an index of shared memory is rarely wrong by gigabytes; an index of an array may be
    far_shared, words_shared = _nearest_shared(fault, shared_arrays(library))
    if far_shared < min(far, 1 << 30):
        return f"went out of bounds: {words_shared}"
    return f"went out of bounds: {words or f'address {address:#x} is far from every array'}"
