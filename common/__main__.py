"""The command line: python -m common COMMAND. Every command imports what it needs when it runs."""

import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def fail(message: object) -> typer.Exit:
    """One line on standard error, and the exit status of bad input."""
    print(" ".join(str(message).split()), file=sys.stderr)
    return typer.Exit(2)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the contact sheet.")] = Path("out"),
) -> None:
    """Read held-out handwritten digits and a photograph with this project's kernels, and compare with ONNX Runtime."""
    from rich.console import Console

    from .demo import run

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise fail(f"--out: {error}") from None
    if not run(out, Console(highlight=False)):
        print("The kernels and ONNX Runtime disagree.", file=sys.stderr)
        raise typer.Exit(1)


@app.command()
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

    from . import classify, cuda, images
    from .network import BACKENDS, Network

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
    try:
        task = classify.task(weights, onnx)
        net = Network(task.model, backend)
    except (ValueError, RuntimeError, OSError) as error:
        raise fail(error) from None
    broken = 0
    for path in pictures:
        try:
            scores = cuda.asnumpy(net(task.prepare(path)))
        except images.ImageError as error:
            print(error, file=sys.stderr)
            broken += 1
            continue
        table = Table("class", "probability", box=None)
        for index, p in classify.best(scores, top):
            name = f"{index}  {task.labels[index]}" if task.labels else f"class {index}"
            table.add_row(name, f"{100 * p:.2f} %")
        console.print(path, soft_wrap=True, markup=False)
        console.print(table)
    if task.source is not None and task.labels is None and broken < len(pictures):
        console.print(
            "Seeded weights are random: the classes have no names and mean nothing. --weights imagenet has both."
        )
    if broken:
        raise typer.Exit(2)


@app.command()
def compare(
    onnx: Annotated[Path | None, typer.Option(help="A network of your own.")] = None,
    weights: Annotated[str, typer.Option(help="digits, seeded or imagenet, if no --onnx.")] = "seeded",
    inputs: Annotated[int, typer.Option(min=1, help="How many random inputs.")] = 10,
    size: Annotated[int | None, typer.Option(min=1, help="Height and width; the model's own if not given.")] = None,
    seed: Annotated[int | None, typer.Option(help="Draw the same inputs again.")] = None,
    dtype: Annotated[str, typer.Option(help="fp32 or fp16, for kernels and cudnn.")] = "fp32",
    layout: Annotated[str, typer.Option(help="NCHW or NHWC, for cudnn.")] = "NCHW",
    arithmetic: Annotated[str | None, typer.Option(help="fp32, tf32 or fp16, for cudnn; dtype's if not given.")] = None,
) -> None:
    """Run every backend on random inputs and compare with ONNX Runtime; exit status 1 if one is out of bounds."""
    from rich.console import Console
    from rich.table import Table

    from . import weights as sources
    from .network.compare import TOLERANCES
    from .network.compare import compare as run

    try:
        rows = run(
            onnx or sources.model(weights), inputs, size, seed=seed, dtype=dtype, layout=layout, arithmetic=arithmetic
        )
    except (ValueError, RuntimeError, OSError) as error:
        raise fail(error) from None
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
    allowed = ", ".join(f"{TOLERANCES[name]:.0e} in {name}" for name in dict.fromkeys(row.arithmetic for row in rows))
    print(f"allowed: a relative error of {allowed}, and the same top 5; ms: the median of a picture")
    if not all(row.within_contract for row in rows):
        raise typer.Exit(1)


@app.command()
def bench(
    suite: Annotated[str, typer.Argument(help="network, operators, kernels, plans, peaks or trace.")],
    backend: Annotated[list[str] | None, typer.Option(help="What to time; several times for several.")] = None,
    batch: Annotated[list[int] | None, typer.Option(min=1, help="Pictures at a time; several times too.")] = None,
    precision: Annotated[list[str] | None, typer.Option(help="fp32 (strict), tf32 or fp16; several times too.")] = None,
    layout: Annotated[list[str] | None, typer.Option(help="NCHW or NHWC; several times too.")] = None,
    operator: Annotated[list[str] | None, typer.Option(help="Of the suite kernels; several times too.")] = None,
    mode: Annotated[str, typer.Option(help="hot or rotating buffers, or from host to host.")] = "hot",
    samples: Annotated[
        int | None, typer.Option(min=6, help="Samples of each; the suite's own number if not given.")
    ] = None,
    tune: Annotated[bool, typer.Option(help="Let cuDNN try its plans and take the fastest.")] = True,
    save: Annotated[bool, typer.Option("--save", help="Into the results file of this card.")] = False,
) -> None:
    """Check and time on this machine's GPU; exit status 1 if something computes the wrong thing, 2 without a GPU."""
    from rich.console import Console

    from .bench import Options, run
    from .measure.timing import NoGpu

    try:
        options = Options(
            tuple(backend or ()), tuple(batch or ()), tuple(precision or ()), tuple(layout or ()),
            mode, samples, tune, save, tuple(operator or ()),
        )  # fmt: skip
        right = run(suite, options, Console(highlight=False))
    except (ValueError, NoGpu) as error:
        raise fail(error) from None
    if not right:
        print("Something that was measured is wrong: see above.", file=sys.stderr)
        raise typer.Exit(1)


@app.command()
def generate(
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit status 1 if something is stale.")
    ] = False,
) -> None:
    """Make what is made of files anew: tables, plots and figures in sentences of results, hints of exercises."""
    from .check import unfold
    from .measure import figures, generated

    if not all([generated.run(check), figures.run(check), unfold.run(check)]):
        print("Stale: python -m common generate", file=sys.stderr)
        raise typer.Exit(1)


@app.command()
def doctor() -> None:
    """Say what is installed, what is missing and what mends it; exit status 1 if something needed is missing."""
    from rich.console import Console

    from .doctor import run

    if not run(Console(highlight=False)):
        raise typer.Exit(1)


@app.command()
def topology(
    onnx: Annotated[Path | None, typer.Option(help="List the layers of this ONNX file.")] = None,
    width: Annotated[float, typer.Option(help="Width multiplier of MobileNetV2.")] = 1.0,
    classes: Annotated[int, typer.Option(help="Number of classes of MobileNetV2.")] = 1000,
    size: Annotated[int | None, typer.Option(help="Height and width of the input; 224 unless a file fixes it.")] = None,
) -> None:
    """List a network layer by layer: shapes, multiply-accumulates, parameters, and the census."""
    from .topology import build, read_onnx

    try:
        if onnx is not None:
            graph = read_onnx(onnx, input_shape=None if size is None else (None, None, size, size))
        else:
            graph = build(width=width, num_classes=classes, input_size=224 if size is None else size)
    except (ValueError, OSError) as error:
        raise fail(error) from None
    print(graph)


weights_app = typer.Typer(help="Weights of MobileNetV2: make, extract and check them.", no_args_is_help=True)
app.add_typer(weights_app, name="weights")
Force = Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")]


@weights_app.command("make")
def weights_make(
    source: Annotated[str, typer.Argument(help="digits, seeded or imagenet.")],
    out: Annotated[Path, typer.Option(help="Where to: .onnx, .npz or .txt.")],
    size: Annotated[int | None, typer.Option(min=1, help="Height and width of the input.")] = None,
    force: Force = False,
) -> None:
    """Write a network with its weights as ONNX, or the weights alone; batch-norms are folded."""
    from .weights import commands

    try:
        commands.make_file(source, out, size, force)
    except (ValueError, RuntimeError, OSError) as error:
        raise fail(error) from None
    print(f"{out}: {out.stat().st_size:,} bytes")


@weights_app.command("extract")
def weights_extract(
    onnx: Annotated[Path, typer.Argument(help="An ONNX file.")],
    out: Annotated[Path, typer.Option(help="Where to: .npz or .txt.")],
    raw: Annotated[bool, typer.Option("--raw", help="Every initializer just as it is stored.")] = False,
    force: Force = False,
) -> None:
    """Take the parameters of the layers out of an ONNX file."""
    from .weights import commands

    try:
        parameters = commands.extract_file(onnx, out, raw, force)
    except (ValueError, OSError) as error:
        raise fail(error) from None
    print(f"{out}: {len(parameters)} arrays, {out.stat().st_size:,} bytes")


@weights_app.command("check")
def weights_check(
    file: Annotated[Path, typer.Argument(help="Weights: .npz, .txt or .onnx.")],
    onnx: Annotated[Path | None, typer.Option(help="The network they are for, if not MobileNetV2.")] = None,
) -> None:
    """Compare weights with their layers; exit status 1 if any is missing, misshapen or not finite."""
    from .weights import commands

    try:
        lines, wrong = commands.check_file(file, onnx)
    except (ValueError, OSError) as error:
        raise fail(error) from None
    print("\n".join(lines))
    if wrong:
        print(f"{file}: {wrong} parameters are out of order", file=sys.stderr)
        raise typer.Exit(1)


if __name__ == "__main__":
    app()
