def int8_saving(fp16_us, size, multiply_adds, bytes_per_s, flops_per_s, overlapped):
    """The share of an fp16 network's time that int8 would save, as an estimate from 0 to 1.

    fp16_us: the network's time. It moves `size` bytes, at bytes_per_s, and computes
    multiply_adds, at flops_per_s; a multiply-add is two floating-point operations. int8
    moves half as many bytes at the same rate, and computes the multiply-adds at twice the
    rate. overlapped: whether both are done at the same time, so that only the longer time
    counts; else the two times add up. All other time stays as it is.
    """
    # BEGIN SOLUTION
    # write: the times of bytes and of multiply-adds, and the share
    memory_us = 1e6 * size / bytes_per_s
    arithmetic_us = 1e6 * 2 * multiply_adds / flops_per_s
    both_us = max(memory_us, arithmetic_us) if overlapped else memory_us + arithmetic_us
    return both_us / 2 / fp16_us
    # END SOLUTION
