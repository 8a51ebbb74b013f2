"""The command line: python -m common COMMAND. Every command imports what it needs when it runs."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def fail(message: object) -> typer.Exit:
    """One line on standard error, and the exit status of bad input."""
    print(" ".join(str(message).split()), file=sys.stderr)
    return typer.Exit(2)


@app.command()
def lab(
    no_open: Annotated[bool, typer.Option("--no-open", help="Make the copies and exit.")] = False,
    update: Annotated[bool, typer.Option("--update", help="The same, after a git pull.")] = False,
    reset: Annotated[str | None, typer.Option(metavar="NOTEBOOK", help="Set one aside, make it anew, exit.")] = None,
    into: Annotated[Path | None, typer.Option(help="The folder of the copies; work/ if not given.")] = None,
    port: Annotated[int | None, typer.Option(help="JupyterLab's port.")] = None,
    browser: Annotated[bool, typer.Option(help="Whether JupyterLab opens a browser.")] = True,
) -> None:
    """Make your own copies of the notebooks in work/, and open JupyterLab on the start page.

    What you have written is never overwritten: a newer source is put beside your copy.
    """
    from rich.console import Console

    from .check import exercises

    root = exercises.REPOSITORY
    work = (into or root / "work").absolute()
    if not any(root.glob("[0-9][0-9]_*/*.ipynb")):
        raise fail(f"lab: no notebooks beside the package, in {root}: clone the repository and run make lab there")
    try:
        from .check import copies, start
    except ModuleNotFoundError as error:
        raise fail(f"lab: {error.name} is not installed: pip install '.[reference,notebooks]', or make lab") from None
    console = Console(highlight=False)
    try:
        changes = copies.update(work)
        if reset is not None:
            notebook = copies.find_notebook(reset, work)
            aside = copies.reset(notebook, work)
            kept = f"; yours is {aside.name} beside it" if aside else ""
            console.print(f"{notebook} is made anew{kept}", markup=False)
        start.write(work)
    except LookupError as error:
        raise fail(f"--reset: {error.args[0]}") from None
    except (ValueError, OSError) as error:
        raise fail(f"--into: {error}" if into else error) from None
    made = [change for change in changes if change.what == "made"]
    if made:
        console.print(f"{len(made)} files made in {os.path.relpath(work)}/", markup=False)
    for change in changes:
        if change.what != "made":
            console.print(f"{change.path}: {change.what}. {change.told}".rstrip(), markup=False, soft_wrap=True)
    if not changes:
        console.print("every copy is up to date")
    if no_open or update or reset is not None:
        return
    if not work.is_relative_to(root):
        raise fail(f"--into: JupyterLab opens folders inside of {root}, got {work}; --no-open makes copies anywhere")
    page = (work / start.PAGE).relative_to(root).as_posix()
    command = [
        sys.executable,
        "-m",
        "jupyterlab",
        f"--ServerApp.root_dir={root}",
        f"--LabApp.default_url=/lab/tree/{page}",
    ]
    command += [f"--ServerApp.port={port}"] if port is not None else []
    command += [] if browser else ["--no-browser"]
    try:
        raise typer.Exit(subprocess.run(command, cwd=work, check=False).returncode)
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


@app.command("progress")
def show_progress(
    notebooks: Annotated[bool, typer.Option("--notebooks", help="One row per notebook.")] = False,
) -> None:
    """What you have done: exercises, hints, predictions, milestones."""
    from rich.console import Console

    from .check import exercises, start
    from .lab import progress

    work = progress.work_folder() or progress.work_folder(exercises.REPOSITORY / "work")
    if work is None:
        raise fail("progress: there is no learner's folder yet: make lab makes it")
    start.write(work)
    Console(highlight=False).print(start.table(work=work, each=notebooks))
    data = progress.load(work)
    taken = sorted(name for name, whose in data["engine"].items() if whose == "reference")
    if taken:
        print(f"of the reference engine: {', '.join(taken)}")
    print(f"the start page, {os.path.relpath(work / start.PAGE)}, shows the same with links")


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
    weights: Annotated[str, typer.Option(help="digits, seeded, imagenet or resnet20, if no --onnx.")] = "seeded",
    inputs: Annotated[int, typer.Option(min=1, help="How many random inputs.")] = 10,
    batch: Annotated[int, typer.Option(min=1, help="How many of them at a time.")] = 1,
    size: Annotated[int | None, typer.Option(min=1, help="Height and width; the model's own if not given.")] = None,
    seed: Annotated[int | None, typer.Option(help="Draw the same inputs again.")] = None,
    dtype: Annotated[str, typer.Option(help="fp32 or fp16, for kernels and cudnn.")] = "fp32",
    layout: Annotated[str | None, typer.Option(help="NCHW or NHWC, for kernels and cudnn.")] = None,
    arithmetic: Annotated[str | None, typer.Option(help="fp32, tf32 or fp16, for cudnn; dtype's if not given.")] = None,
    optimize: Annotated[str | None, typer.Option(help="latency or throughput, for kernels.")] = None,
    layers: Annotated[bool, typer.Option("--layers", help="Step by step: which one is the first to drift?")] = False,
    backend: Annotated[str, typer.Option(help="For --layers: kernels, cudnn or torch.")] = "kernels",
    photo: Annotated[bool, typer.Option(help="The sample photo too, where the network has three channels.")] = True,
) -> None:
    """Run every backend on random inputs and a photo, compare with ONNX Runtime; exit status 1 if one is out of bounds.

    With --layers one backend, step by step: its error so far, and that of each step alone on exact inputs.
    """
    from .network import compare as comparing

    try:
        model = _model(onnx, weights)
        if layers:
            choices = comparing.CHOICES.get(backend, ())
            given = {"dtype": dtype, "layout": layout, "arithmetic": arithmetic, "optimize": optimize}
            options = {name: value for name, value in given.items() if name in choices}
            rows = comparing.compare_steps(model, backend, seed=seed, size=size, **options)
        else:
            pictures = [_photo(onnx, weights, size)] if photo else []
            compared = comparing.compare(
                model, inputs, size, seed=seed, batch=batch, pictures=[p for p in pictures if p is not None],
                dtype=dtype, layout=layout, arithmetic=arithmetic, optimize=optimize,
            )  # fmt: skip
    except (ValueError, RuntimeError, OSError) as error:
        raise fail(error) from None
    fits = _show_steps(rows) if layers else _show_backends(compared)
    if not fits:
        raise typer.Exit(1)


def _model(onnx: Path | None, weights: str) -> Any:
    """The ONNX file, or the network of these weights. What common.weights raises."""
    from . import weights as sources

    if onnx is not None:
        return onnx
    return sources.resnet20_model() if weights == "resnet20" else sources.model(weights)


def _photo(onnx: Path | None, weights: str, size: int | None) -> Any:
    """The sample photo as the network's input, or None if it takes no photographs."""
    from . import classify, images, topology

    if weights == "resnet20" or (onnx is not None and topology.read_onnx(onnx).input_shape[1] != 3):
        return None
    task = classify.task(None if onnx else weights, onnx)
    if size:
        task = replace(task, input_size=(size, size))
    return task.prepare(images.sample())


def _show_backends(rows: Any) -> bool:
    """A line a backend; whether all are within the contract."""
    from rich.console import Console
    from rich.table import Table

    from .network import available
    from .network.compare import TOLERANCES

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
    allowed = ", ".join(f"{TOLERANCES[name]:.0e} in {name}" for name in dict.fromkeys(row.arithmetic for row in rows))
    print(f"allowed: a relative error of {allowed}, and the same top 5; ms: the median of a picture")
    return all(row.within_contract for row in rows)


def _show_steps(rows: Any) -> bool:
    """A line a step; whether each is right on its own."""
    from .network.compare import first_drift
    from .text import aligned

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


@app.command()
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

    from .network import Network
    from .network.profile import plot as draw

    try:
        net = Network(_model(onnx, weights), layout=layout)
        x = np.random.default_rng(0).standard_normal((batch, *net.input_shape[1:]), dtype=np.float32)
        profiles = [net.profile(x, runs, one) for one in placement or ["gpu"]]
        for number, one in enumerate(profiles, 1):
            print(one, end="\n\n")
            if table is not None:
                path = table if len(profiles) == 1 else table.with_stem(f"{table.stem}-{number}")
                print(f"written: {one.save(path)}")
        if save:
            from .bench import Run

            keeper = Run("steps")
            for one in profiles:
                keeper.save(one.records(onnx.stem if onnx else weights))
            print(f"saved as {keeper.name}")
        if plot is not None:
            draw(profiles).savefig(plot)
            print(f"drawn: {plot}")
    except (ValueError, RuntimeError, OSError) as error:
        raise fail(error) from None


@app.command()
def bench(
    suite: Annotated[
        str, typer.Argument(help="network, chain, operators, kernels, plans, sparse, profile, peaks or trace.")
    ],
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
    optimize: Annotated[
        str | None, typer.Option(help="none, latency or throughput, for ours; without it, what suits the batch.")
    ] = None,
    network: Annotated[list[str] | None, typer.Option(help="Of the suite sparse; several times too.")] = None,
    layer: Annotated[str | None, typer.Option(help='Of the suite sparse: shapes such as "*1×1*".')] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Of the suite sparse: so many shapes, the largest.")] = None,
    pattern: Annotated[
        list[str] | None, typer.Option(help="Of the suite sparse: zero elements, pixels or tiles; several times too.")
    ] = None,
    sweep: Annotated[bool, typer.Option(help="Of the suite sparse: sparsities from 0 to 99 %.")] = True,
    table: Annotated[Path | None, typer.Option("--csv", help="Of the suite sparse: write the table here.")] = None,
    save: Annotated[bool, typer.Option("--save", help="Into the results file of this card.")] = False,
) -> None:
    """Check and time on this machine's GPU; exit status 1 if something computes the wrong thing, 2 without a GPU."""
    from rich.console import Console

    from .bench import Options, run
    from .measure.timing import NoGpu

    try:
        options = Options(
            tuple(backend or ()), tuple(batch or ()), tuple(precision or ()), tuple(layout or ()),
            mode, samples, tune, save, tuple(operator or ()), optimize, tuple(network or ()), layer, limit,
            tuple(pattern or ()), sweep, None if table is None else str(table),
        )  # fmt: skip
        right = run(suite, options, Console(highlight=False))
    except (ValueError, NoGpu) as error:
        raise fail(error) from None
    if not right:
        print("Something that was measured is wrong: see above.", file=sys.stderr)
        raise typer.Exit(1)


@app.command()
def energy(
    backend: Annotated[
        list[str] | None,
        typer.Option(help="ours, cudnn, torch-graph, torch-compile; also torch-eager, xla; several times for several."),
    ] = None,
    batch: Annotated[
        list[int] | None, typer.Option(min=1, help="Pictures at a time, 1 and 256 if not given; several times too.")
    ] = None,
    precision: Annotated[
        list[str] | None, typer.Option(help="fp32 (strict) and fp16 if not given, or tf32; several times too.")
    ] = None,
    seconds: Annotated[float, typer.Option(help="Of each in each round, without a pause.")] = 10,
    rounds: Annotated[int, typer.Option(help="In each everything runs once; every second order is turned round.")] = 4,
    seed: Annotated[int | None, typer.Option(help="Of those orders; drawn if not given.")] = None,
    save: Annotated[bool, typer.Option("--save", help="Into the results file of this card.")] = False,
) -> None:
    """Meter the energy of an image, mJ above idle power; exit status 1 if results are wrong, 2 where it cannot be told.

    What it will take is printed first: with torch.compile, minutes for each batch and precision.
    """
    from rich.console import Console

    from .bench import energy as metering
    from .measure.energy import Unmetered
    from .measure.timing import NoGpu

    try:
        plan = metering.Plan(
            tuple(backend or ()), tuple(batch or ()), tuple(precision or ()), seconds, rounds, seed, save
        )  # fmt: skip
        right = metering.bench(plan, Console(highlight=False))
    except (ValueError, NoGpu, Unmetered) as error:
        raise fail(error) from None
    if not right:
        print("Something that was metered is wrong: see above.", file=sys.stderr)
        raise typer.Exit(1)


@app.command()
def tune(
    onnx: Annotated[Path | None, typer.Option(help="A network of your own.")] = None,
    weights: Annotated[str, typer.Option(help="digits, seeded, imagenet or resnet20, if no --onnx.")] = "seeded",
    batch: Annotated[list[int] | None, typer.Option(min=1, help="Pictures at a time; several times too.")] = None,
    dtype: Annotated[list[str] | None, typer.Option(help="fp32 or fp16; several times too.")] = None,
    tried: Annotated[int, typer.Option(min=1, help="Candidates to time for each block.")] = 12,
    save_to: Annotated[Path | None, typer.Option(help="A file to keep the tiles in, besides the cache.")] = None,
) -> None:
    """Search the fastest tile for every block of a network on this machine's GPU, for Network(..., optimize=...).

    What is found is kept on disk for this card, driver and version of the kernels. Exit status 1 if a candidate
    computed the wrong thing, 2 without a GPU.
    """
    from .bench import tuning
    from .measure.timing import NoGpu
    from .network import DTYPES

    try:
        found = tuning.tune(
            _model(onnx, weights), tuple(batch or tuning.BATCHES), tuple(dtype or DTYPES), tried, save_to
        )  # fmt: skip
    except (ValueError, NoGpu, RuntimeError, OSError) as error:
        raise fail(error) from None
    if any(one.wrong for one in found):
        print("Some candidates computed the wrong thing: see above.", file=sys.stderr)
        raise typer.Exit(1)


@app.command()
def milestone(
    chapter: Annotated[int | None, typer.Argument(min=1, max=6, help="The first one not passed if not given.")] = None,
) -> None:
    """Try your engine in work/engine on a chapter's held-out networks; exit status 0 if it passes, 1 if not."""
    from .lab import milestones

    place = milestones.find_engine()
    if place is None:
        raise fail("there is no folder work/ here: make lab makes it")
    if not milestones.run(chapter, engine=place):
        raise typer.Exit(1)


@app.command()
def generate(
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit status 1 if something is stale.")
    ] = False,
) -> None:
    """Make what is made of files anew: tables, plots and figures in sentences, hints, links between notebooks."""
    from .check import unfold
    from .lab import links
    from .measure import figures, generated

    if not all([generated.run(check), figures.run(check), unfold.run(check), links.run(check)]):
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


images_app = typer.Typer(help="Pictures as network inputs.", no_args_is_help=True)
app.add_typer(images_app, name="images")


@images_app.callback()
def images_group() -> None:
    """(With a callback, one command alone keeps its name.)"""


@images_app.command("pack")
def images_pack(
    pictures: Annotated[list[Path], typer.Argument(help="Picture files, and folders of them.", readable=False)],
    out: Annotated[Path, typer.Option(help="The .npy file to write; the names go into OUT.json.")],
    size: Annotated[int, typer.Option(min=1, help="Height and width of an input.")] = 224,
) -> None:
    """Prepare pictures for a network as one .npy file, (N, 3, size, size) float32; exit status 1 if some are left out.

    numpy.load(OUT, mmap_mode="r") reads it, and so does cnpy in C++.
    """
    from tqdm import tqdm

    from .images import pack
    from .text import printable

    try:
        packed = pack(pictures, out, size, lambda line: tqdm.write(line, file=sys.stderr))
    except (ValueError, OSError) as error:
        raise fail(error) from None
    left = f", {len(packed.skipped)} left out" if packed.skipped else ""
    shape = f"{packed.written} × 3 × {size} × {size} float32"
    print(f"{printable(out)}: {shape}, {out.stat().st_size:,} bytes{left}")
    if packed.skipped:
        raise typer.Exit(1)


weights_app = typer.Typer(help="Weights of MobileNetV2: make, extract and check them.", no_args_is_help=True)
app.add_typer(weights_app, name="weights")
Force = Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")]


@weights_app.command("make")
def weights_make(
    source: Annotated[str, typer.Argument(help="digits, seeded or imagenet.")],
    out: Annotated[Path, typer.Option(help="Where to: .onnx or .npz.")],
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
    out: Annotated[Path, typer.Option(help="Where to: .npz.")],
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
    file: Annotated[Path, typer.Argument(help="Weights: .npz or .onnx.")],
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
