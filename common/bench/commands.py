"""The commands: python -m common bench SUITE, python -m common energy. A suite is imported when its command runs."""

import importlib
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup


class _Suites(TyperGroup):
    """A group whose error for an unknown command lists the commands."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and self.get_command(ctx, args[0]) is None:
            known = ", ".join(self.list_commands(ctx))
            print(f"SUITE must be one of {known}, got {args[0]!r}", file=sys.stderr)
            raise typer.Exit(2)
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=_Suites,
    no_args_is_help=True,
    subcommand_metavar="SUITE [OPTIONS]",
    help="Check and time on this machine's GPU; exit status 1 if something computes the wrong thing, 2 without a GPU.",
)

Batches = Annotated[list[int] | None, typer.Option("--batch", min=1, help="Pictures at a time; repeatable.")]
Precisions = Annotated[
    list[str] | None, typer.Option("--precision", help="fp32 (no TF32), tf32, fp16; of kernels, network, energy int8.")
]  # fmt: skip
Layouts = Annotated[list[str] | None, typer.Option("--layout", help="NCHW or NHWC; repeatable.")]
Backends = Annotated[list[str] | None, typer.Option("--backend", help="What to time; repeatable.")]
Samples = Annotated[
    int | None, typer.Option(min=6, help="Samples of each; the suite's own number if not given.")
]  # fmt: skip
Tune = Annotated[bool, typer.Option(help="Let cuDNN try its plans and take the fastest.")]
Save = Annotated[bool, typer.Option("--save", help="Into the results of this card.")]
Folder = Annotated[
    Path | None,
    typer.Option("--results", help="The folder of results, instead of 06_optimize/results of the course."),
]


def _run(name: str, given: dict[str, Any]) -> None:
    """Run a suite with its command's options, by the names of its Options' fields. Exit status 1 for a wrong result."""
    from rich.console import Console

    suite = importlib.import_module(f".{name}", __package__)
    options = {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}
    chosen = suite.Options(**{key: value for key, value in options.items() if value is not None})
    if not suite.bench(chosen, Console(highlight=False)):
        print("Something that was measured is wrong: see above.", file=sys.stderr)
        raise typer.Exit(1)


@app.command("all")
def everything(
    suites: Annotated[
        list[str] | None, typer.Option("--suite", help="These suites only; repeatable.")
    ] = None,
    save: Save = False, folder: Folder = None,
) -> None:  # fmt: skip
    """Every suite, one after the other, for a card that has no records; without --save how long that takes."""
    _run("everything", locals())


@app.command()
def network(
    backends: Backends = None, batches: Batches = None, precisions: Precisions = None, layouts: Layouts = None,
    mode: Annotated[str, typer.Option(help="hot or rotating buffers; host to host; call, replay: net(x).")] = "hot",
    optimize: Annotated[
        str | None, typer.Option(help="none, latency or throughput, for ours; without it, what suits the batch.")
    ] = None,
    samples: Samples = None, tune: Tune = True, save: Save = False, folder: Folder = None,
) -> None:  # fmt: skip
    """MobileNetV2 as a whole: ours, cuDNN's, PyTorch's and XLA's."""
    _run("network", locals())


@app.command()
def chain(
    rungs: Annotated[list[str] | None, typer.Option("--backend", help='A rung, as "fused blocks"; repeatable.')] = None,
    batches: Batches = None, precisions: Precisions = None, samples: Samples = None, save: Save = False,
    folder: Folder = None,
) -> None:  # fmt: skip
    """MobileNetV2 on ours, from the first rungs to all that makes it fast, one thing after the other."""
    _run("chain", locals())


@app.command()
def operators(
    backends: Backends = None, batches: Batches = None, precisions: Precisions = None, layouts: Layouts = None,
    samples: Samples = None, tune: Tune = True, save: Save = False, folder: Folder = None,
) -> None:  # fmt: skip
    """Each different step of MobileNetV2 alone, on cuDNN and on ours."""
    _run("operators", locals())


@app.command()
def kernels(
    operators: Annotated[
        list[str] | None, typer.Option("--operator", help="Whose rungs; all if not given; repeatable.")
    ] = None,
    batches: Batches = None, precisions: Precisions = None, layouts: Layouts = None, samples: Samples = None,
    tune: Tune = True, save: Save = False, folder: Folder = None,
) -> None:  # fmt: skip
    """Every rung of our own operators beside cuDNN and cuBLAS."""
    _run("kernels", locals())


@app.command()
def late(
    cases: Annotated[
        list[str] | None, typer.Option("--case", help='A layer, as "head 7×7 320>1280"; repeatable.')
    ] = None,
    tiles: Annotated[int, typer.Option(min=1, help="Candidate tiles of pointwise's rungs 8 and 9.")] = 12,
    batches: Batches = None, precisions: Precisions = None, samples: Samples = None, tune: Tune = True,
    save: Save = False, folder: Folder = None,
) -> None:  # fmt: skip
    """1×1 convolutions with few pixels and many channels: rungs, candidate tiles, cuDNN."""
    _run("late", locals())


@app.command()
def plans(
    precisions: Precisions = None, layouts: Layouts = None, samples: Samples = None, save: Save = False,
    folder: Folder = None,
) -> None:  # fmt: skip
    """A few convolutions in every way to ask cuDNN for them."""
    _run("plans", locals())


@app.command()
def sparse(
    networks: Annotated[list[str] | None, typer.Option("--network", help="Whose convolutions; repeatable.")] = None,
    layer: Annotated[str | None, typer.Option(help='Shapes, as "*1×1*".')] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="That many shapes, the largest.")] = None,
    patterns: Annotated[
        list[str] | None, typer.Option("--pattern", help="Zero elements, pixels or tiles; repeatable.")
    ] = None,
    sweep: Annotated[bool, typer.Option(help="Sparsities from 0 to 99 %, besides the given one.")] = True,
    csv: Annotated[Path | None, typer.Option("--csv", help="Write the table here.")] = None,
    batches: Batches = None, precisions: Precisions = None, samples: Samples = None, tune: Tune = True,
    save: Save = False, folder: Folder = None,
) -> None:  # fmt: skip
    """Convolutions that skip zeros of their input: how many there are, from how many on it pays."""
    _run("sparse", locals())


@app.command()
def profile(
    batches: Batches = None, precisions: Precisions = None, save: Save = False, folder: Folder = None
) -> None:  # fmt: skip
    """Each kernel of ours under ncu: which resource is busy, what its warps wait for."""
    _run("profile", locals())


@app.command()
def timeline(
    backends: Annotated[
        list[str] | None,
        typer.Option(
            "--backend",
            help='torch-eager, torch-graph, cudnn, "ours step by step", ours; also torch-compile; repeatable.',
        ),
    ] = None,
    batches: Batches = None, precisions: Precisions = None, samples: Samples = None, tune: Tune = True,
    save: Save = False, folder: Folder = None,
) -> None:  # fmt: skip
    """When each kernel of one forward pass starts and ends, and when it was launched."""
    _run("timeline", locals())


@app.command()
def errors(
    networks: Annotated[
        list[str] | None, typer.Option("--network", help="seeded, digits or resnet20; repeatable.")
    ] = None,
    inputs: Annotated[list[str] | None, typer.Option("--inputs", help="pictures or noise; repeatable.")] = None,
    batches: Batches = None, save: Save = False, folder: Folder = None,
) -> None:  # fmt: skip
    """How far the logits of whole networks are from float64, in each arithmetic that counts as fp32."""
    _run("errors", locals())


@app.command()
def peaks(
    cases: Annotated[
        list[str] | None,
        typer.Option("--case", help="copy, read, l2-copy, l2-read, fma-fp32, tensor-tf32, tensor-fp16; repeatable."),
    ] = None,
    samples: Samples = None, save: Save = False, folder: Folder = None,
) -> None:  # fmt: skip
    """The card's peak rates: bytes per second of DRAM and of L2, FLOPs per second."""
    _run("peaks", locals())


@app.command()
def trace(save: Save = False, folder: Folder = None) -> None:
    """What the simulator's trace counts, against what the profiler counts."""
    _run("trace", locals())


@app.command()
def multiprocessor(
    cases: Annotated[
        list[str] | None,
        typer.Option("--case", help="latency, fma, divergence, loads, waves, bounds; repeatable."),
    ] = None,
    samples: Samples = None, save: Save = False, folder: Folder = None,
) -> None:  # fmt: skip
    """What limits one multiprocessor: latencies, issue slots, divergence, loads in flight, the number of blocks."""
    _run("multiprocessor", locals())


@app.command()
def sections(save: Save = False, folder: Folder = None) -> None:
    """What the profiler's sections say of the rungs of gemm, and of two kernels that are bound by memory."""
    _run("sections", locals())


@app.command()
def inspect(save: Save = False, folder: Folder = None) -> None:
    """What cuda.inspect says of kernels, registers and occupancy, against what the profiler says."""
    _run("inspect", locals())


@app.command()
def families(
    networks: Annotated[
        list[str] | None, typer.Option("--network", help="By torchvision's name; all if not given; repeatable.")
    ] = None,
    batches: Batches = None, precisions: Precisions = None, samples: Samples = None, save: Save = False,
    folder: Folder = None,
) -> None:  # fmt: skip
    """torchvision's networks, an SSD head and a U-Net on ours, in fp32 and fp16, against float64."""
    _run("families", locals())


@app.command("two-of-four")
def two_of_four(
    networks: Annotated[list[str] | None, typer.Option("--network", help="Whose 1×1 layers; repeatable.")] = None,
    batches: Batches = None, samples: Samples = None, save: Save = False, folder: Folder = None,
) -> None:  # fmt: skip
    """1×1 layers with two zeros in four weights, by PyTorch's semi-structured tensors, beside dense ones."""
    _run("two_of_four", locals())


@app.command()
def fp8(
    cases: Annotated[
        list[str] | None, typer.Option("--case", help='A layer, as "head 7×7 320>1280"; repeatable.')
    ] = None,
    batches: Batches = None, samples: Samples = None, save: Save = False, folder: Folder = None,
) -> None:  # fmt: skip
    """The 7×7 stage's 1×1 layers in fp16, int8 and fp8 (e4m3), by PyTorch and by this project's kernels."""
    _run("fp8", locals())


@app.command()
def candidates(
    blocks: Annotated[
        list[str] | None, typer.Option("--block", help="56×56, 28×28, 14×14 or 7×7; repeatable.")
    ] = None,
    ranked: Annotated[int, typer.Option(min=1, help="Tiles that the cost model ranks first.")] = 120,
    random: Annotated[int, typer.Option(min=0, help="Tiles drawn at random from all others.")] = 280,
    batches: Batches = None, precisions: Precisions = None, save: Save = False, folder: Folder = None,
) -> None:  # fmt: skip
    """Many tiles of a few fused blocks: what a search chooses from, with a random control."""
    _run("candidates", locals())


@app.command()
def pipeline(
    batches: Batches = None, precisions: Precisions = None,
    repeats: Annotated[int | None, typer.Option(min=2, help="Batches per measurement, 20 if not given.")] = None,
    save: Save = False, folder: Folder = None,
) -> None:  # fmt: skip
    """Where time goes from a picture's bytes to its class: decode, copy, compute; without a GPU, too."""
    _run("pipeline", locals())


@app.command()
def scaling(
    gpus: Annotated[
        list[int] | None, typer.Option("--gpus", min=1, help="How many; 1 and all if not given; repeatable.")
    ] = None,
    repeats: Annotated[int | None, typer.Option(min=2, help="Batches per GPU, 20 if not given.")] = None,
    seconds: Annotated[float | None, typer.Option(help="Seconds for decoded pictures, 2 if not given.")] = None,
    ray: Annotated[bool, typer.Option(help="Measure Ray Data, too, if it is installed.")] = True,
    batches: Batches = None, precisions: Precisions = None, save: Save = False, folder: Folder = None,
) -> None:  # fmt: skip
    """Pictures per second with one GPU and with more, of decoded pictures and of JPEG files; without a GPU, too."""
    _run("scaling", locals())


@app.command()
def load(
    windows: Annotated[
        list[float] | None, typer.Option("--window", help="ms that a batch waits for pictures; repeatable.")
    ] = None,
    rates: Annotated[
        list[float] | None, typer.Option("--rate", help="Requests per second; by what it can answer; repeatable.")
    ] = None,
    seconds: Annotated[float | None, typer.Option(help="Seconds per rate, 10 if not given.")] = None,
    port: Annotated[int | None, typer.Option(help="Of HTTP, on this machine.")] = None,
    batches: Batches = None, precisions: Precisions = None, save: Save = False, folder: Folder = None,
) -> None:  # fmt: skip
    """The service's p50, p95 and p99 against offered load, for several batching windows; without a GPU, too."""
    _run("load", locals())


def energy(
    backends: Annotated[
        list[str] | None,
        typer.Option("--backend", help="ours, cudnn, torch-graph, torch-compile; also torch-eager, xla; repeatable."),
    ] = None,
    batches: Annotated[
        list[int] | None, typer.Option("--batch", min=1, help="Pictures at a time, 1 and 256 if not given; repeatable.")
    ] = None,
    precisions: Annotated[
        list[str] | None, typer.Option("--precision", help="fp32 (no TF32) and fp16 if not given, or tf32; repeatable.")
    ] = None,
    seconds: Annotated[float, typer.Option(help="Seconds that each implementation runs in each round.")] = 10,
    rounds: Annotated[
        int,
        typer.Option(
            help="Number of rounds. Every implementation runs once per round; each second round reverses the order."
        ),
    ] = 4,
    seed: Annotated[int | None, typer.Option(help="Of the random order; drawn if not given.")] = None,
    save: Save = False, folder: Folder = None,
) -> None:  # fmt: skip
    """Meter the energy of an image, mJ above idle power; exit status 1 if results are wrong, 2 if it cannot be metered.

    What it will take is printed first: with torch.compile, minutes for each batch and precision.
    """
    _run("energy", locals())
