import math

from common.check import expect
from common.check.trials import python_random


def saving(fp16_us, size, multiply_adds, bytes_per_s, flops_per_s, overlapped):
    memory_us, arithmetic_us = 1e6 * size / bytes_per_s, 2e6 * multiply_adds / flops_per_s
    return together(memory_us, arithmetic_us, overlapped) / 2 / fp16_us


def together(memory_us, arithmetic_us, overlapped):
    return max(memory_us, arithmetic_us) if overlapped else memory_us + arithmetic_us


def mistakes(fp16_us, size, multiply_adds, bytes_per_s, flops_per_s, overlapped):
    """[(what a mistake gives, the hint that it deserves)]."""
    memory_us, once_us = 1e6 * size / bytes_per_s, 1e6 * multiply_adds / flops_per_s
    arithmetic_us = 2 * once_us
    right = together(memory_us, arithmetic_us, overlapped) / 2 / fp16_us
    other = together(memory_us, arithmetic_us, not overlapped) / 2 / fp16_us
    full = "that is the share of bytes and multiply-adds in fp16; int8 saves only a part of it"
    word = "only the longer time counts" if overlapped else "the two times add up"
    return [
        (2 * right, full),
        (1 - right, "that is what is left of the time; the share that is saved is asked for"),
        (100 * right, "that is in percent; a share from 0 to 1 is asked for"),
        (right * fp16_us, "that is a time in µs; divide it by the time of the fp16 network"),
        (right / 1e6, "bytes / (bytes per s) gives seconds; the network's time is in µs"),
        (other, f"overlapped is {overlapped}: {word}"),
        (together(memory_us, once_us, overlapped) / 2 / fp16_us, "a multiply-add is two floating-point operations"),
        (memory_us / 2 / fp16_us, "that counts bytes only; what about the multiply-adds?"),
        (arithmetic_us / 2 / fp16_us, "that counts multiply-adds only; what about the bytes?"),
    ]


def check(int8_saving):
    def compare(*case):
        hint = "half of the time of the bytes and of the multiply-adds, over the time of the fp16 network"
        got = int8_saving(*case)
        if isinstance(got, int | float):
            hint = next((told for value, told in mistakes(*case) if math.isclose(got, value, rel_tol=1e-9)), hint)
        expect(got, saving(*case), what=f"int8_saving{case}", hint=hint, rtol=1e-9)

    for overlapped in (True, False):
        compare(200.0, 40_000_000, 9_000_000_000, 4e12, 6e14, overlapped)  # the multiply-adds take longer
        compare(200.0, 80_000_000, 3_000_000_000, 4e12, 6e14, overlapped)  # the bytes take longer
    draw = python_random()
    for _ in range(20):
        rates = draw.uniform(1e11, 8e12), draw.uniform(1e13, 2e15)
        memory_us, arithmetic_us = draw.uniform(1, 100), draw.uniform(1, 100)
        size, multiply_adds = round(memory_us * rates[0] / 1e6), round(arithmetic_us * rates[1] / 2e6)
        fp16_us = memory_us + arithmetic_us + draw.uniform(0, 500)
        compare(fp16_us, size, multiply_adds, *rates, draw.random() < 0.5)
