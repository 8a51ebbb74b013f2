"""CUDA C++ on a CPU: the simulator.

A kernel is compiled as C++ by the machine's compiler (compiler.py), with headers that define CUDA's keywords and
functions (include/), and run by a small runtime (runtime/): every CUDA thread is a fiber with its own stack, and every
running block has a CPU core. Arrays lie between inaccessible pages (memory.py), so that a kernel that writes past their
end is stopped and reported.

Tested on x86-64 Linux, with g++ 12 and with the clang of the ziglang wheel. For aarch64 Linux the runtime and a few
kernels (barriers, shuffles, shared memory, half precision, faults) were cross-compiled by g++ 12 and ran correctly
under qemu, without Python. macOS on arm64 should work but has not been tested.

What is where, each file using only those above it:

    compiler            compiles a kernel to a library, cached by cuda/cache.py; readable error messages
    memory              arrays between inaccessible pages
    binding             the runtime library, its structures in ctypes, the arguments of a launch
    symbols             maps addresses to lines and names of the source
    faults, recording   messages for what stopped a launch; a launch's recording as a Report
    watch, guard        launches with every access checked, by a checked build of the kernel
    module              modules and kernels with CuPy's interface
    proof, tracing      cuda.trace, and the check that a compiler's code can be counted

The simulator is not a model of time: it has no caches, no parallel warps and no latency. It shows what a kernel
computes, not how fast a GPU would compute it.
"""

from .compiler import find_compiler
from .memory import fenced
from .module import SimulatedKernel, SimulatedModule

__all__ = ["SimulatedKernel", "SimulatedModule", "fenced", "find_compiler"]
