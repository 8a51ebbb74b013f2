"""What notebook 06/15 shows of the records in int8 and fp8.

eight_bits.inputs(recorded)   by batch size, fp16's time, the bytes and the multiply-adds of fused blocks
eight_bits.table(recorded)    times and energy in int8 beside fp16
eight_bits.mixes(recorded)    cycles of a scheduler for instructions of int8 blocks, alone and together
eight_bits.fp8(recorded)      1×1 convolutions of the 7×7 stage in fp16, int8 and fp8, by cuBLAS
"""

from collections.abc import Iterable, Iterator
from typing import Any

from .. import topology
from ..measure.roofline import Work
from ..network.steps import fuse
from ..network.work import work_of
from ..optimize.fusions import BlockStep, InvertedResidual
from ..optimize.generate import Tile
from . import multiprocessor
from .results import Record, Results, find
from .tables import NETWORK, card_and_date, fp16_beside_int8

NO_RECORDS = "no records yet: `python -m common {} --save` makes them on a GPU"
KINDS = ("fma", "cvt.pack", "mma k32")  # of instructions that `mixes` shows
FP8 = ("torch-fp16", "torch-int8", "torch-fp8")  # that `fp8` shows


def _of(recorded: Results, suite: str, precision: str, **more: Any) -> dict[int, Record]:
    """The records of ours by batch size."""
    keys = {"suite": suite, "case": NETWORK, "implementation": "ours", "precision": precision, **more}
    return {r["batch"]: r for r in find(recorded, **keys)}


def _fused(batch: int) -> Iterable[Any]:
    """The steps of MobileNetV2 with whole blocks fused."""
    return fuse(topology.build().with_batch(batch), InvertedResidual(lambda *_: Tile(1, 1)))


def fused_work(batch: int, itemsize: int) -> Work:
    """The least bytes and the FLOPs of MobileNetV2 with whole blocks fused, each with its input, weights and output."""
    works = (
        Work(step.block.bytes(batch, itemsize), 2 * step.block.macs * batch)
        if isinstance(step, BlockStep)
        else work_of(step, itemsize)
        for step in _fused(batch)
    )
    return sum(works, Work(0, 0))


def hidden_values(batch: int) -> int:
    """The values of MobileNetV2's hidden tensors, of expand and of depthwise, in fused blocks."""
    blocks = [step.block for step in _fused(batch) if isinstance(step, BlockStep)]
    of_depthwise = (-(-b.height // b.stride) * -(-b.width // b.stride) * b.hidden for b in blocks)
    return batch * (sum(b.height * b.width * b.hidden for b in blocks) + sum(of_depthwise))


def mix_cycles(recorded: Results, warps: int = 2) -> dict[str, float]:
    """Cycles of a scheduler for each mix of KINDS, "3 fma + mma k32", with so many warps on each scheduler."""
    found = {r["mix"]: r["cycles"] for r in multiprocessor.records("mixes", recorded, warps=warps)}
    return {mix: cycles for mix, cycles in found.items() if all(one.endswith(KINDS) for one in mix.split(" + "))}


def mixes(recorded: Results) -> dict[str, float]:
    """Print `mix_cycles`, beside mixes of several kinds the sum of their parts; return them."""
    cycles = mix_cycles(recorded)
    print(f"cycles of a scheduler, {card_and_date(recorded, multiprocessor.records('mixes', recorded))}")
    print(f"{'':<30}{'measured':>10}{'sum of parts':>14}")
    for mix, measured in cycles.items():
        parts = mix.split(" + ")
        if len(parts) == 1:
            print(f"{mix:<30}{measured:>10.1f}")
        else:
            print(f"{mix:<30}{measured:>10.1f}{sum(_of_part(part, cycles) for part in parts):>14.1f}")
    return cycles


def _of_part(part: str, cycles: dict[str, float]) -> float:
    """The cycles of "3 fma" by those of "fma"."""
    if part in cycles:
        return cycles[part]
    count, name = part.split(" ", 1)
    whole = next(mix for mix in cycles if mix.endswith(name) and " + " not in mix)  # of one, or of two together
    return cycles[whole] * int(count) / (int(whole.split()[0]) if whole != name else 1)


def inputs(recorded: Results) -> dict[int, tuple[float, int, int]]:
    """By batch size: (µs of the fp16 network, its least bytes, its multiply-adds), for an estimate of what int8 saves.

    The time is the one that `table` has beside the time in int8, so batch sizes without records in int8 are left out.
    """
    found = {}
    for row in rows(recorded):
        if row["fp16_us"] is not None:
            work = fused_work(row["batch"], 2)
            found[row["batch"]] = (row["fp16_us"], work.bytes, work.flops // 2)
    return found


SAME = 0.02  # two times of one network that differ by less are the same


def rows(recorded: Results) -> Iterator[dict[str, Any]]:
    """By batch size in int8: the times of ours in int8 and in fp16, their ratio, ONNX Runtime's time, mJ of an image.

    measured_us: the times of the two networks whose energies these are.

    Both times of ours are of one process, where they were timed alternately, if its record has their ratio. Both
    energies are of one process, measured alternately.
    """
    fp16, beside = _of(recorded, "network", "fp16", mode="hot"), fp16_beside_int8(recorded)
    energy8 = _of(recorded, "energy", "int8")
    energy16 = {r["batch"]: r for r in find(recorded, suite="energy", implementation="ours-fp16", precision="int8")}
    theirs = {
        r["batch"]: r
        for r in find(recorded, suite="network", case=NETWORK, implementation="onnxruntime-cuda", precision="int8")
    }
    for batch, r in sorted(_of(recorded, "network", "int8", mode="hot").items()):
        other = beside[batch][0] if batch in beside else fp16[batch]["median_us"] if batch in fp16 else None
        yield {
            "batch": batch,
            "us": r["median_us"],
            "fp16_us": other,
            "ratio": r["median_us"] / other if other else None,
            "onnxruntime_us": theirs[batch]["median_us"] if batch in theirs else None,
            "mj": energy8[batch]["mj_per_image"] if batch in energy8 else None,
            "fp16_mj": energy16[batch]["mj_per_image"] if batch in energy16 else None,
            "measured_us": tuple(of[batch]["time_us"] for of in (energy8, energy16) if batch in of),
        }


def table(recorded: Results) -> None:
    """Print `rows`, or how to make the records; and the times of the runs that metered energy, if these are others."""
    found = list(rows(recorded))
    if not found:
        print(NO_RECORDS.format("bench network --precision int8"))
        return

    def shown(value: float | None, digits: int) -> str:
        return "–" if value is None else f"{value:,.{digits}f}"

    print(card_and_date(recorded, list(_of(recorded, "network", "int8", mode="hot").values())))
    columns = {  # of a row: (head, digits)
        "us": ("int8, µs", 1), "fp16_us": ("fp16, µs", 1), "ratio": ("int8 over fp16", 2),
        "onnxruntime_us": ("ONNX Runtime int8, µs", 1), "mj": ("mJ/picture, int8", 2),
        "fp16_mj": ("mJ/picture, fp16", 2),
    }  # fmt: skip
    kept = [name for name in columns if any(row[name] is not None for row in found)]
    print("batch" + "".join(f"{columns[name][0]:>{len(columns[name][0]) + 3}}" for name in kept))
    for row in found:
        cells = (f"{shown(row[name], columns[name][1]):>{len(columns[name][0]) + 3}}" for name in kept)
        print(f"{row['batch']:>5}" + "".join(cells))
    for row in found:
        now = row["us"], row["fp16_us"]
        metered = row["measured_us"] if None not in now and len(row["measured_us"]) == 2 else now
        if any(abs(one / other - 1) > SAME for one, other in zip(metered, now, strict=True) if other):
            us8, us16 = metered
            times = f"int8 took {us8:,.0f} µs, fp16 {us16:,.0f} µs"
            print(f"Energies at batch {row['batch']}: of an earlier run, in which {times}.")
    unknown = [f"{row['batch']}" for row in found if row["mj"] is None]
    energies = f"energy at batch {', '.join(unknown)}"
    missing = [*["ONNX Runtime in int8"] * ("onnxruntime_us" not in kept), *[energies] * bool(unknown)]
    if missing:
        print(f"Not recorded on this card: {', '.join(missing)}.")


def fp8(recorded: Results, batch: int | None = None) -> None:
    """Print the suite "fp8": µs of each product, a line per layer, and the errors of the formats.

    batch: of this batch size only; else a line per layer and batch size.
    """
    found = find(recorded, suite="fp8", **({} if batch is None else {"batch": batch}))
    if not found:
        print(NO_RECORDS.format("bench fp8"))
        return
    print(f"µs, {card_and_date(recorded, found)}")
    by: dict[tuple[str, int], dict[str, Record]] = {}
    for r in found:
        by.setdefault((r["case"], r["batch"]), {})[r["implementation"]] = r
    print(f"{'':<36}" + "".join(f"{name:>12}" for name in FP8))
    for (case, of), row in sorted(by.items(), key=lambda item: (item[0][1], item[0][0])):
        cells = (f"{row[name]['median_us']:.2f}" if name in row else "–" for name in FP8)
        print(f"{f'{case}, b{of}':<36}" + "".join(f"{text:>12}" for text in cells))
    most = max(of for _, of in by)
    for name, beside in {"torch-int8": "torch-fp16", "torch-fp8": "torch-fp16"}.items():
        ratios = [
            row[name]["median_us"] / row[beside]["median_us"]
            for (_, of), row in by.items()
            if of == most and {name, beside} <= row.keys()
        ]
        if ratios:
            print(f"batch {most}, time of {name} over {beside}: {min(ratios):.2f} to {max(ratios):.2f}")
    for name in FP8:
        errors = [row[name]["error"] for row in by.values() if name in row]
        if errors:
            print(f"{name:<12} error against float64 {min(errors):.1e} to {max(errors):.1e}")
