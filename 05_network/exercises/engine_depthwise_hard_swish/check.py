from common.check.engine_kernels import check_kernel


def check(source):
    check_kernel(source, "depthwise_hard_swish")
