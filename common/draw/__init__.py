"""Drawings of how a GPU works, from real parameters: one function per drawing.

    draw.grid(blocks=4, threads=64)          a grid, one of its blocks, its warps, its threads with their indices
    draw.guard(n=10, threads=4)              the threads beyond the end of an array
    draw.matrix(5, 7, (4, 2))                a two-dimensional grid over a matrix
    draw.grid_stride(n=20, threads=8)        which thread processes which element in which iteration
    draw.tree(values)                        a sum in shared memory, step by step
    draw.launches(13.4, 70.3, 3)             host and GPU on a timeline
    draw.queues(13.4, 3.4)                   launches that are slower than their kernels, or faster
    draw.timeline({"eager": slices})         what ran when, coloured by kind of layer
    draw.latency(card.measured())            latency hiding: one thread that waits, and many that overlap
    draw.memory(card.measured())             registers, shared memory, L2, global memory: sizes and bandwidths

Each returns a Drawing, which a notebook displays: a Matplotlib figure with alternative text.
"""

from .canvas import Drawing
from .execution import grid, grid_stride, guard, matrix
from .hardware import latency, memory
from .reduction import tree
from .timeline import launches, queues, timeline

__all__ = [
    "Drawing",
    "grid",
    "grid_stride",
    "guard",
    "latency",
    "launches",
    "matrix",
    "memory",
    "queues",
    "timeline",
    "tree",
]
