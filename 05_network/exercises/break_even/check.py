import random

from common.check import expect


def reference(cpu_ms, gpu_ms, bytes_in, bytes_out, latency_us, gb_per_s):
    seconds = 2 * latency_us * 1e-6 + (bytes_in + bytes_out) / (gb_per_s * 1e9)
    return cpu_ms - gpu_ms - 1e3 * seconds


def check(break_even):
    def compare(arguments, hint):
        call = f"break_even({', '.join(f'{a:g}' for a in arguments)})"
        expect(break_even(*arguments), reference(*arguments), what=call, hint=hint, rtol=1e-9, atol=1e-9)

    hint = "nothing is copied in no time: what the CPU took, less what the GPU takes; below 0 if that is more"
    compare((5.0, 0.0, 0, 0, 0.0, 10.0), hint)
    compare((5.0, 1.5, 0, 0, 0.0, 10.0), "the step takes time there, too: gpu_ms")
    hint = "10⁹ bytes a second are 10⁶ a ms; sizes are bytes, not bits, and what it writes may be smaller"
    compare((5.0, 1.0, 8_000_000, 0, 0.0, 10.0), hint)
    hint = "two copies: the result comes back as well"
    compare((5.0, 1.0, 8_000_000, 2_000_000, 0.0, 10.0), hint)
    hint = "a copy takes its latency however small it is; one µs is a thousandth of a ms, and there are two copies"
    compare((5.0, 1.0, 0, 0, 100.0, 10.0), hint)
    hint = "a step that costs more than it saves: the answer is below 0"
    compare((0.06, 0.03, 65_536, 65_536, 25.0, 20.0), hint)

    draw = random.Random()
    for _ in range(20):
        times = draw.uniform(0.01, 9), draw.uniform(0.01, 9)
        sizes = draw.randint(1, 10**7), draw.randint(1, 10**7)
        compare((*times, *sizes, draw.uniform(1, 50), draw.uniform(1, 60)), "any step, any bus")
