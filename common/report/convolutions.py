"""What convolution kernels need per output or per step: counts of traces and machine code, beside times and profiles.

per_output(report, inspection, 9)         loads, L1 clocks and instructions of a rung
table({"conv2d naive": (needs, us)})      such counts, with the shares of issue slots and L1 clocks in a recorded time
fused(rung, …)                            a fused Winograd rung's clocks per step
waves(cases, rungs)                       blocks, waves and recorded times of the fused rungs, layer by layer
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..cuda.machine_code import Inspection
from ..cuda.machine_code.occupancy import SCHEDULERS
from ..cuda.report import Report
from ..kernels.winograd import TILE, ladder
from . import ladders, multiprocessor, products, sections


@dataclass(frozen=True)
class Needs:
    """Per output and input channel: loads of a thread, L1 clocks of a warp, instructions. Registers, warps per SM."""

    loads: float
    l1_clocks: float
    instructions: float
    registers: int
    warps: int


def per_output(report: Report, found: Inspection, multiply_adds: int, channels: int = 8) -> Needs:
    """What an output needs per input channel. multiply_adds: among its instructions, this number."""
    outputs = report.global_stores.bytes / 4 * channels
    l1 = multiprocessor.load_clocks(report) + report.shared_loads.wavefronts + report.shared_stores.wavefronts
    issued = sum(found.hot.values()) / max(1, found.hot["FFMA"]) * multiply_adds
    return Needs(
        report.global_loads.accesses / outputs, l1 / outputs * 32, issued, found.registers,
        found.occupancy("H200").warps,
    )  # fmt: skip


def table(kernels: Mapping[str, tuple[Needs, float | None]], outputs: int = 32 * 64 * 64 * 56 * 56) -> None:
    """Print the needs of kernels by name. outputs: of the layer, times its input channels, for the shares in the µs."""
    print(f"{'':<16}  loads  L1 clocks  instructions  registers  warps     µs  issue slots    L1")
    for name, (needs, us) in kernels.items():
        print(f"{name:<16}{needs.loads:>7.1f}{needs.l1_clocks:>11.1f}{needs.instructions:>14.0f}", end="")
        print(f"{needs.registers:>11}{needs.warps:>7}", end="" if us else "\n")
        if us:
            clocks = us * 1e-6 * products.clock_hz() * products.MULTIPROCESSORS / (outputs / 32)
            print(f"{us:>7,.0f}{needs.instructions / SCHEDULERS / clocks:>13.0%}{needs.l1_clocks / clocks:>6.0%}")


def fused(
    rung: str, outputs: int, tile: Mapping[str, int], found: Inspection, report: Report, steps: int
) -> dict[str, float]:
    """The clocks per step of a fused Winograd rung by unit; prints them with the machine code's counts.

    outputs: along a side of a tile. report: of a launch of so many steps.
    """
    hot, products_of = found.hot, (outputs + 2) ** 2
    # multiply-adds of the products, per thread and turn of the loop
    useful = products_of // tile["WARPS"] * tile["BC"] * tile["TO"] * tile["TP"]
    executed = sections.of("winograd", rung)["instructions"] / (products_of * (56 // outputs) ** 2 * 32 * 64 * 64 / 32)
    waves = (report.shared_loads.wavefronts + report.shared_stores.wavefronts) / steps
    units = sum(hot[name] for name in ("FFMA", "FADD", "FMUL")) / useful
    clocks = {"shared wavefronts": waves, "issue slots": executed / SCHEDULERS, "FMA units": units / SCHEDULERS}
    print(f"{rung}: {found.registers} registers, {found.spills} bytes spilled")
    print(f"  {found.occupancy('H200')}")
    text = f"{sum(hot.values()) / useful:.2f} in the loop's text (its inner loop once)"
    print(f"  per step: {executed:.2f} instructions executed, {text}")
    print(f"  {useful / hot['LDS.128']:.0f} steps per 16-byte shared load")
    print("  clocks per step:", ", ".join(f"{unit} {count:.2f}" for unit, count in clocks.items()))
    return clocks


def waves(cases: Sequence[str], rungs: Sequence[str]) -> None:
    """Print blocks, waves and recorded µs of fused Winograd rungs at batch 1 and 32. cases: "conv 3×3 56×56 64>64"."""
    print(f"{'':<19}outputs    batch 1         batch 32")
    print("image  rung           kept   blocks   µs   blocks  waves    µs   µs per wave")
    for case in cases:
        image, channels = case.split()[2:]
        size, out_channels = int(image.split("×")[0]), int(channels.split(">")[1])
        for rung in rungs:
            tile, across = ladder.tile(rung), -(-size // TILE[rung])
            kept = (size / (across * TILE[rung])) ** 2
            few, many = (
                -(-batch * across**2 // tile["BP"]) * -(-out_channels // tile["BO"]) for batch in (1, 32)
            )  # fmt: skip
            early, late = (ladders.us(case, rung, batch) for batch in (1, 32))
            if early is None or late is None:
                raise ValueError(f"no record of {rung}, {case}")
            count = -(-many // products.MULTIPROCESSORS)
            print(f"{image:<7}{rung:<12}{kept:>7.0%}{few:>9}{early:>5.0f}", end="")
            print(f"{many:>9}{count:>7}{late:>6.0f}{late / count:>14.0f}")
