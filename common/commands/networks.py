"""Commands that run networks: demo, classify, compare, profile, tune, quantize."""

import dataclasses
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ..files import replacing
from ..text import aligned, printable
from .errors import fail


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the contact sheet.")] = Path("out"),
) -> None:
    """Read held-out handwritten digits and a photograph with this project's kernels, and compare with ONNX Runtime."""
    from rich.console import Console

    from ..demo import run

    if not run(out, Console(highlight=False)):
        print("The kernels and ONNX Runtime disagree.", file=sys.stderr)
        raise typer.Exit(1)


def classify(
    pictures: Annotated[list[Path] | None, typer.Argument(help="Picture files; without any, held-out digits.")] = None,
    weights: Annotated[str | None, typer.Option(help="digits, seeded or imagenet.")] = None,
    onnx: Annotated[Path | None, typer.Option(help="A network of your own.")] = None,
    backend: Annotated[str, typer.Option(help="kernels, cudnn, torch or onnxruntime.")] = "kernels",
    top: Annotated[int, typer.Option(min=1, help="How many classes to show.")] = 5,
    count: Annotated[int, typer.Option(min=1, help="How many digits to show.")] = 8,
) -> None:
    """Say what is in pictures: held-out digits, or picture files."""
    from rich.console import Console
    from rich.table import Table

    from .. import classify, cuda, images
    from ..network import BACKENDS, Network

    if backend not in BACKENDS:
        raise fail(f"--backend: must be one of {', '.join(BACKENDS)}, got {backend!r}")
    if weights and onnx:
        raise fail("--weights and --onnx: give one of them")
    console = Console(highlight=False)
    if not pictures:
        if onnx or weights not in (None, "digits"):
            pictures = [images.sample()]
        else:
            reading = classify.read_digits(backend)
            for i, (digit, label, guess) in enumerate(
                zip(reading.images, reading.labels, reading.predictions, strict=True)
            ):
                if i == count:
                    break
                lines = classify.as_text(digit)
                lines[3] += f"   label {label}, read as {guess}" + ("" if label == guess else "   [red]wrong[/]")
                console.print("\n".join(lines))
            right = int((reading.predictions == reading.labels).sum())
            console.print(f"{right} of all {len(reading.labels)} held-out digits read correctly ({backend})")
            return
    task = classify.task(weights, onnx)
    net = Network(task.model, backend)
    broken = 0
    for path in pictures:
        try:
            scores = cuda.asnumpy(net(task.prepare(path)))
        except images.ImageError as error:
            fail(error)
            broken += 1
            continue
        table = Table("class", "probability", box=None)
        for index, p in classify.best(scores, top):
            name = f"{index}  {task.labels[index]}" if task.labels else f"class {index}"
            table.add_row(name, f"{100 * p:.2f} %")
        console.print(printable(path), soft_wrap=True, markup=False)
        console.print(table)
    if task.source is not None and task.labels is None and broken < len(pictures):
        console.print(
            "Seeded weights are random: the classes have no names and mean nothing. --weights imagenet has both."
        )
    if broken:
        raise typer.Exit(2)


def compare(
    onnx: Annotated[Path | None, typer.Option(help="A network of your own.")] = None,
    weights: Annotated[str, typer.Option(help="digits, seeded, imagenet or resnet20, if no --onnx.")] = "seeded",
    inputs: Annotated[int, typer.Option(min=1, help="How many random inputs.")] = 10,
    batch: Annotated[int, typer.Option(min=1, help="How many of them at a time.")] = 1,
    size: Annotated[int | None, typer.Option(min=1, help="Height and width; the model's own if not given.")] = None,
    seed: Annotated[int | None, typer.Option(help="Draw the same inputs again.")] = None,
    dtype: Annotated[str, typer.Option(help="fp32 or fp16, for kernels and cudnn.")] = "fp32",
    layout: Annotated[str | None, typer.Option(help="NCHW or NHWC, for kernels and cudnn.")] = None,
    arithmetic: Annotated[
        str | None, typer.Option(help="tf32 for cudnn; tf32x3, halves or fma for kernels; dtype's if not given.")
    ] = None,
    optimize: Annotated[str | None, typer.Option(help="latency or throughput, for kernels.")] = None,
    layers: Annotated[bool, typer.Option("--layers", help="Step by step: which one is the first to drift?")] = False,
    backend: Annotated[str, typer.Option(help="For --layers: kernels, cudnn or torch.")] = "kernels",
    photo: Annotated[bool, typer.Option(help="The sample photo too, where the network has three channels.")] = True,
) -> None:
    """Run every backend on random inputs and a photo, compare with ONNX Runtime; exit status 1 if one is out of bounds.

    With --layers one backend, step by step: its error so far, and that of each step alone on exact inputs.
    """
    from ..network import backends
    from ..network import compare as comparing

    model = _model(onnx, weights)
    if layers:
        choices = backends.choices(backend)
        given = {"dtype": dtype, "layout": layout, "arithmetic": arithmetic, "optimize": optimize}
        options = {name: value for name, value in given.items() if name in choices}
        rows = comparing.compare_steps(model, backend, seed=seed, size=size, **options)
    else:
        pictures = [_photo(onnx, weights, size)] if photo else []
        compared = comparing.compare(
            model, inputs, size, seed=seed, batch=batch, pictures=[p for p in pictures if p is not None],
            dtype=dtype, layout=layout, arithmetic=arithmetic, optimize=optimize,
        )  # fmt: skip
    fits = _show_steps(rows) if layers else _show_backends(compared)
    if not fits:
        raise typer.Exit(1)


def _model(onnx: Path | None, weights: str) -> Any:
    """The ONNX file if given, else the network of these weights as an ONNX model. Errors as for common.weights."""
    from .. import weights as sources

    if onnx is not None:
        return onnx
    return sources.resnet20_model() if weights == "resnet20" else sources.model(weights)


def _photo(onnx: Path | None, weights: str, size: int | None) -> Any:
    """The sample photo as the network's input, None if its inputs are not photographs. size: height and width."""
    from .. import classify, images, topology

    if weights == "resnet20":
        return None
    if onnx is not None:
        graph = topology.read_onnx(onnx)
        if graph.more_inputs or graph.more_outputs or graph.input_shape[1] != 3:
            return None
    task = classify.task(None if onnx else weights, onnx)
    if size:
        task = dataclasses.replace(task, input_size=(size, size))
    return task.prepare(images.sample())


def _show_backends(rows: Any) -> bool:
    """Print one line per backend; return whether all are within the tolerance."""
    from rich.console import Console
    from rich.table import Table

    from ..network import available
    from ..network.compare import TOLERANCES

    table = Table("backend", "arithmetic", "relative error", "same top 5", "ms", "", box=None)
    for row in rows:
        verdict = "reference" if row.backend == "onnxruntime" else "ok" if row.within_contract else "[red]outside[/]"
        table.add_row(
            row.backend,
            row.arithmetic,
            f"{row.error:.1e}",
            f"{row.same_top5} of {row.images}",
            f"{row.milliseconds:.1f}",
            verdict,
        )
    Console(highlight=False).print(table)
    for name in available():
        if name not in [row.backend for row in rows]:
            print(f"{name} is not compared: this network has layers that it does not run")
    allowed = ", ".join(f"{TOLERANCES[name]:.0e} in {name}" for name in dict.fromkeys(row.precision for row in rows))
    print(f"allowed: a relative error of {allowed}, and the same top 5; ms: the median of a picture")
    return all(row.within_contract for row in rows)


def _show_steps(rows: Any) -> bool:
    """Print one line per step; return whether each is correct on exact inputs."""
    from ..network.compare import first_drift

    lines = [("", "layer", "step", "runs as", "error so far", "its own", "allowed", "")] + [
        (
            f"{row.index}:", row.layer, row.step, row.runs_as, f"{row.error:.1e}", f"{row.own:.1e}",
            f"{row.allowed:.1e}", "ok" if row.fits else "drifts",
        )
        for row in rows
    ]  # fmt: skip
    print("\n".join(aligned(lines, right=(0, 4, 5, 6))))
    first = first_drift(rows)
    if first is None:
        print("every step is right on its own")
    else:
        print(f"the first that drifts: step {first.index}, layer {first.layer}, {first.step}, run by {first.runs_as}")
    return first is None


def profile(
    onnx: Annotated[Path | None, typer.Option(help="A network of your own.")] = None,
    weights: Annotated[str, typer.Option(help="digits, seeded, imagenet or resnet20, if no --onnx.")] = "seeded",
    batch: Annotated[int, typer.Option(min=1, help="Pictures at a time.")] = 1,
    runs: Annotated[int, typer.Option(min=1, help="Inferences to average over.")] = 100,
    placement: Annotated[
        list[str] | None,
        typer.Option(help="gpu, cpu, or a pattern of the layers that run on the GPU; several times for several."),
    ] = None,
    layout: Annotated[str | None, typer.Option(help="NCHW or NHWC.")] = None,
    table: Annotated[
        Path | None, typer.Option("--csv", help="Write the rows here; several placements: -1, -2, …")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the steps here: .png, .svg or .pdf.")] = None,
    save: Annotated[bool, typer.Option("--save", help="Into the results file of this card, as suite steps.")] = False,
) -> None:
    """Say what each step of a network takes in time and memory, on the GPU, the CPU or some here and some there."""
    import numpy as np

    from ..network import Network
    from ..network.compare import random_inputs
    from ..report import steps

    net = Network(_model(onnx, weights), layout=layout)
    x = random_inputs(net.input_shape, np.random.default_rng(0), batch=batch)
    profiles = [net.profile(x, runs, one) for one in placement or ["gpu"]]
    for number, one in enumerate(profiles, 1):
        print(one, end="\n\n")
        if table is not None:
            path = table if len(profiles) == 1 else table.with_stem(f"{table.stem}-{number}")
            print(f"written: {printable(one.save(path))}")
    if save:
        from ..bench.driver import Run

        keeper = Run("steps")
        for one in profiles:
            keeper.save(steps.records_of(one, onnx.stem if onnx else weights))
        print(f"saved as {keeper.name}")
    if plot is not None:
        with replacing(plot) as file:
            steps.plot(profiles).savefig(file, format=plot.suffix.lstrip(".") or "png")
        print(f"drawn: {printable(plot)}")


def tune(
    onnx: Annotated[Path | None, typer.Option(help="A network of your own.")] = None,
    weights: Annotated[str, typer.Option(help="digits, seeded, imagenet or resnet20, if no --onnx.")] = "seeded",
    batch: Annotated[list[int] | None, typer.Option(min=1, help="Pictures at a time; several times too.")] = None,
    dtype: Annotated[list[str] | None, typer.Option(help="fp32, fp16 or int8; several times too.")] = None,
    tried: Annotated[int, typer.Option(min=1, help="Candidates to time for each block.")] = 12,
    save_to: Annotated[Path | None, typer.Option(help="A file to keep the tiles in, besides the cache.")] = None,
    in_network: Annotated[
        float | None,
        typer.Option(
            min=0, help="Try tiles within the network, for so many seconds per dtype and batch, after compilation."
        ),
    ] = None,
    times: Annotated[
        Path | None, typer.Option(help="With --in-network: a candidates.csv, whose fastest tiles are tried.")
    ] = None,
    trials: Annotated[Path | None, typer.Option(help="With --in-network: a CSV file for every tile tried.")] = None,
) -> None:
    """Search the fastest tile for every block of a network on this machine's GPU, for Network(..., optimize=...).

    Each block is timed alone; with --in-network the whole network is, from the tiles in use on. What is found is kept
    on disk for this card, driver and version of the kernels. Exit status 1 if a candidate computed the wrong thing, 2
    without a GPU.
    """
    from ..bench import tuning, tuning_in_network, tuning_int8
    from ..network import DTYPES

    model, batches = _model(onnx, weights), tuple(batch or tuning.BATCHES)
    floats = tuple(one for one in dtype or DTYPES if one != "int8")
    if in_network is not None:
        wanted = tuple(dtype or DTYPES)
        done = tuning_in_network.tune(model, batches, wanted, in_network, tried, save_to, times, trials)
        if any(trial.verdict == tuning_in_network.WRONG for trial in done):
            print("Some candidates computed the wrong thing: see above.", file=sys.stderr)
            raise typer.Exit(1)
        return
    found: list[Any] = tuning.tune(model, batches, floats, tried, save_to) if floats else []
    if "int8" in (dtype or ()):
        if floats and save_to:
            raise ValueError("--save-to: the tiles of int8 have a file of their own, tune --dtype int8 alone")
        found += tuning_int8.tune(model, batches, tried, save_to)
    if any(one.wrong for one in found):
        print("Some candidates computed the wrong thing: see above.", file=sys.stderr)
        raise typer.Exit(1)


def quantize(
    calibrate: Annotated[Path, typer.Option(help="Folder of pictures as the network will see them.", readable=False)],
    out: Annotated[Path, typer.Option("--out", "-o", help="The .onnx file to write.")],
    onnx: Annotated[Path | None, typer.Option(help="A network of your own.")] = None,
    weights: Annotated[str, typer.Option(help="digits, seeded or imagenet, if no --onnx.")] = "digits",
    pictures: Annotated[int, typer.Option(min=1, help="How many pictures of the folder at most.")] = 128,
    ranges: Annotated[str, typer.Option(help="minmax, percentile, entropy or mse.")] = "mse",
    per_tensor: Annotated[bool, typer.Option("--per-tensor", help="One scale per weight, not per channel.")] = False,
    weight_bits: Annotated[int, typer.Option(help="8, or 7: for ONNX Runtime on x86 processors without VNNI.")] = 8,
    equalize: Annotated[bool, typer.Option("--equalize", help="Scale channels between convolutions first.")] = False,
    agreement: Annotated[
        float | None, typer.Option(help="Keep layers in float32 until this share of pictures keeps its class.")
    ] = None,
    in_float: Annotated[
        list[str] | None, typer.Option(help="A layer that stays in float32; several times for several.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
) -> None:
    """Write a network in 8-bit integers, as an ONNX file with QuantizeLinear and DequantizeLinear.

    Network and ONNX Runtime run the file. Ranges of activations come from the pictures.
    """
    from .. import classify, topology
    from .. import weights as sources
    from ..quantize.files import calibration_pictures, quantize_file

    task = classify.task(None if onnx else weights, onnx)
    graph, parameters = sources.fold_batch_norm(*topology.read_onnx_with_parameters(task.model))
    x = calibration_pictures(calibrate, task.prepare, pictures, lambda line: print(line, file=sys.stderr))
    report = quantize_file(
        graph, parameters, x, out, ranges=ranges, per_channel=not per_tensor, equalize=equalize, wanted=agreement,
        in_float=in_float or (), force=force, weight_bits=weight_bits,
    )  # fmt: skip
    for one in report.ranking[:10]:
        kept = "stays in float32" if one.layer in report.in_float else ""
        print(f"{one.error:8.2%}  {printable(one.layer)}  {kept}".rstrip())
    print(f"{printable(out)}: {out.stat().st_size:,} bytes")
    print(
        f"on the {report.pictures} calibration pictures: relative error {report.error:.1%},"
        f" the same class as in float32 for {report.agreement:.1%}, {len(report.in_float)} layers in float32"
    )
    print(f"by ONNX Runtime on this processor: the same class for {report.by_onnx_runtime:.1%}")
    if report.by_onnx_runtime < report.agreement and weight_bits == 8:
        print(
            "ONNX Runtime adds two products in 16 bits on x86 processors without VNNI, and such a sum saturates:"
            " --weight-bits 7 avoids that"
        )
