"""A kernel on all shapes of its operator, without a demand on its technique."""

from common.check.engine_kernels import check_kernel


def check(source: str, name: str) -> None:
    """source: of the kernel; name: of the operator."""
    check_kernel(source, name)
