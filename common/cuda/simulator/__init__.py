"""CUDA C++ on a CPU: the simulator.

A kernel is compiled as C++ by the machine's compiler (compiler.py), with headers that give CUDA's words a
meaning there (include/), and run by a small runtime (runtime/) in which every CUDA thread has a stack
of its own and every block in flight a core. Arrays lie between pages that must not be touched (memory.py),
so that a kernel that writes past their end is stopped and reported.

Run and tested on x86-64 Linux, with g++ 12 and with the clang of the ziglang wheel. On aarch64 Linux the
runtime and a few kernels (barriers, shuffles, shared memory, halves, faults) were cross-compiled by g++ 12
and ran right under qemu, without Python. macOS on arm64 is meant to work by construction and has not been
tried.

What is where, each file using only those above it:

    compiler            a kernel's text becomes a library, kept by cuda/cache.py; errors that a learner can read
    memory              arrays between fences
    binding             the runtime library, its structures in ctypes, the arguments of a launch
    symbols             from addresses to lines and names of the source
    faults, recording   what stopped a launch, and what was recorded of it, in words
    watch, guard        a launch with every access seen, by a checked build of its kernel
    module              modules and kernels as CuPy's
    proof, tracing      cuda.trace, and whether a compiler's code is fit for it

What it is not: a model of time. It has no caches, no warps in parallel, no latency; it says what a kernel
computes, never how fast a GPU would compute it.
"""

from .compiler import find_compiler
from .memory import fenced
from .module import SimulatedKernel, SimulatedModule

__all__ = ["SimulatedKernel", "SimulatedModule", "fenced", "find_compiler"]
