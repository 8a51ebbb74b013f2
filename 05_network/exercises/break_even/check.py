from common.check import expect
from common.check.trials import Slips, python_random, whole


def reference(cpu_ms, gpu_ms, bytes_in, bytes_out, latency_us, gb_per_s, latencies=2, per_gb=1e9, ms=1e-3):
    return cpu_ms - gpu_ms - latencies * latency_us * ms - (bytes_in + bytes_out) / (gb_per_s * per_gb) * 1e3


SLIPS = {
    "the step takes time there, too: gpu_ms": lambda cpu, gpu, *a: reference(cpu, 0, *a),
    "what the CPU took, less what the GPU takes: below 0 if that is more": lambda *a: -reference(*a),
    "sizes are bytes, not bits": lambda *a: reference(*a, per_gb=1e9 / 8),
    "a gigabyte is 10⁹ bytes here, not 2³⁰": lambda *a: reference(*a, per_gb=2**30),
    "10⁹ bytes a second are 10⁶ a ms": lambda *a: reference(*a, per_gb=1e12),
    "one µs is a thousandth of a ms": lambda *a: reference(*a, ms=1.0),
    "one µs is a thousandth of a ms, not a millionth": lambda *a: reference(*a, ms=1e-6),
    "a copy takes its latency however small it is": lambda *a: reference(*a, latencies=0),
    "there are two copies, each with its latency": lambda *a: reference(*a, latencies=1),
    "the result comes back as well: bytes_out": lambda c, g, i, o, *a: reference(c, g, i, 0, *a),
    "what it reads goes there: bytes_in": lambda c, g, i, o, *a: reference(c, g, 0, o, *a),
    "what it reads is copied there, what it writes back: bytes_in + bytes_out": lambda c, g, i, o, *a: reference(
        c, g, i, i, *a
    ),
    "a step may cost more than it saves: the answer is then below 0": lambda *a: max(0.0, reference(*a)),
}


def check(break_even):
    slips = Slips(SLIPS)

    def compare(arguments, hint):
        got = break_even(*arguments)
        hint = slips.hint(got, arguments, hint)
        off = 1e-9 * (arguments[0] + arguments[1] + abs(reference(*arguments)))  # what is left may be small
        expect(got, reference(*arguments), what=f"break_even{arguments}", hint=hint, atol=off)

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

    draw = python_random()
    every = "cpu_ms less gpu_ms, less for each of two copies latency_us and its bytes over gb_per_s, all in ms"
    for _ in range(60):
        scale = 10.0 ** draw.randint(-6, 6)
        times = scale * draw.uniform(0.01, 9), scale * draw.uniform(0.01, 9)
        rates = 10.0 ** draw.uniform(-9, 6), 10.0 ** draw.uniform(-3, 6)
        compare((*times, whole(draw, 0), whole(draw, 0), *rates), every)
