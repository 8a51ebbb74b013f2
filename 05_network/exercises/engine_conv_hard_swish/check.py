from common.check.engine_kernels import check_kernel, loaded_once


def check(source):
    loaded_once(check_kernel(source, "conv_hard_swish")[0], "conv_hard_swish")
