from common.check.engine_kernels import check_kernel, loaded_once

HINTS = {
    "out-of-bounds": "residual may be null, then there is nothing to add: test the pointer before you read. Every other"
    " index is compared with its array's size, because a tile at the edge has places beyond it"
}


def check(source):
    loaded_once(check_kernel(source, "pointwise", HINTS)[0], "pointwise")
