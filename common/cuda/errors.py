"""What can go wrong with a kernel: it does not compile, or it does not run to its end."""


class CompileError(Exception):
    """A kernel's source is not valid CUDA C++. The message names the learner's own lines."""


class KernelError(RuntimeError):
    """A launch was stopped: a bad address, a deadlock, a trap. The message names thread, block and array."""
