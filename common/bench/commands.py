"""The commands: python -m common bench SUITE, python -m common energy. A suite is imported when it is asked for."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup


class _Suites(TyperGroup):
    """A group that says which commands it has when asked for another."""

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
    list[str] | None, typer.Option("--precision", help="fp32 (strict), tf32 or fp16; repeatable.")
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


def _run(suite: Any, **given: Any) -> None:
    """Runs a suite; exit status 1 for a wrong result."""
    from rich.console import Console

    options = {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}
    chosen = suite.Options(**{key: value for key, value in options.items() if value is not None})
    if not suite.bench(chosen, Console(highlight=False)):
        print("Something that was measured is wrong: see above.", file=sys.stderr)
        raise typer.Exit(1)


@app.command()
def network(
    backend: Backends = None, batch: Batches = None, precision: Precisions = None, layout: Layouts = None,
    mode: Annotated[str, typer.Option(help="hot or rotating buffers, or host: from host to host.")] = "hot",
    optimize: Annotated[
        str | None, typer.Option(help="none, latency or throughput, for ours; without it, what suits the batch.")
    ] = None,
    samples: Samples = None, tune: Tune = True, save: Save = False, results: Folder = None,
) -> None:  # fmt: skip
    """MobileNetV2 as a whole: ours, cuDNN's, PyTorch's and XLA's."""
    from . import network as suite

    _run(
        suite, backends=backend, batches=batch, precisions=precision, layouts=layout, mode=mode, optimize=optimize,
        samples=samples, tune=tune, save=save, folder=results,
    )  # fmt: skip


@app.command()
def chain(
    backend: Annotated[list[str] | None, typer.Option(help='A rung, as "fused blocks"; repeatable.')] = None,
    batch: Batches = None, precision: Precisions = None, samples: Samples = None, save: Save = False,
    results: Folder = None,
) -> None:  # fmt: skip
    """MobileNetV2 on ours, from the first rungs to all that makes it fast, one thing after the other."""
    from . import chain as suite

    _run(suite, rungs=backend, batches=batch, precisions=precision, samples=samples, save=save, folder=results)


@app.command()
def operators(
    backend: Backends = None, batch: Batches = None, precision: Precisions = None, layout: Layouts = None,
    samples: Samples = None, tune: Tune = True, save: Save = False, results: Folder = None,
) -> None:  # fmt: skip
    """Each different step of MobileNetV2 alone, on cuDNN and on ours."""
    from . import operators as suite

    _run(
        suite, backends=backend, batches=batch, precisions=precision, layouts=layout, samples=samples, tune=tune,
        save=save, folder=results,
    )  # fmt: skip


@app.command()
def kernels(
    operator: Annotated[list[str] | None, typer.Option(help="Whose rungs; all if not given; repeatable.")] = None,
    batch: Batches = None, precision: Precisions = None, layout: Layouts = None, samples: Samples = None,
    tune: Tune = True, save: Save = False, results: Folder = None,
) -> None:  # fmt: skip
    """Every rung of our own operators beside cuDNN and cuBLAS."""
    from . import kernels as suite

    _run(
        suite, operators=operator, batches=batch, precisions=precision, layouts=layout, samples=samples, tune=tune,
        save=save, folder=results,
    )  # fmt: skip


@app.command()
def plans(
    precision: Precisions = None, layout: Layouts = None, samples: Samples = None, save: Save = False,
    results: Folder = None,
) -> None:  # fmt: skip
    """A few convolutions in every way to ask cuDNN for them."""
    from . import plans as suite

    _run(suite, precisions=precision, layouts=layout, samples=samples, save=save, folder=results)


@app.command()
def sparse(
    network: Annotated[list[str] | None, typer.Option(help="Whose convolutions; repeatable.")] = None,
    layer: Annotated[str | None, typer.Option(help='Shapes, as "*1×1*".')] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="That many shapes, the largest.")] = None,
    pattern: Annotated[list[str] | None, typer.Option(help="Zero elements, pixels or tiles; repeatable.")] = None,
    sweep: Annotated[bool, typer.Option(help="Sparsities from 0 to 99 %, besides the given one.")] = True,
    table: Annotated[Path | None, typer.Option("--csv", help="Write the table here.")] = None,
    batch: Batches = None, precision: Precisions = None, samples: Samples = None, tune: Tune = True,
    save: Save = False, results: Folder = None,
) -> None:  # fmt: skip
    """Convolutions that skip zeros of their input: how many there are, from how many on it pays."""
    from . import sparse as suite

    _run(
        suite, networks=network, layer=layer, limit=limit, patterns=pattern, sweep=sweep, csv=table, batches=batch,
        precisions=precision, samples=samples, tune=tune, save=save, folder=results,
    )  # fmt: skip


@app.command()
def profile(
    batch: Batches = None, precision: Precisions = None, save: Save = False, results: Folder = None
) -> None:  # fmt: skip
    """Each kernel of ours under ncu: which resource is busy, what its warps wait for."""
    from . import profile as suite

    _run(suite, batches=batch, precisions=precision, save=save, folder=results)


@app.command()
def peaks(samples: Samples = None, save: Save = False, results: Folder = None) -> None:
    """What the card can do at best: bytes a second, FLOPs a second."""
    from . import peaks as suite

    _run(suite, samples=samples, save=save, folder=results)


@app.command()
def trace(save: Save = False, results: Folder = None) -> None:
    """What the simulator's trace counts, against what the profiler counts."""
    from . import trace as suite

    _run(suite, save=save, folder=results)


def energy(
    backend: Annotated[
        list[str] | None,
        typer.Option(help="ours, cudnn, torch-graph, torch-compile; also torch-eager, xla; repeatable."),
    ] = None,
    batch: Annotated[
        list[int] | None, typer.Option(min=1, help="Pictures at a time, 1 and 256 if not given; repeatable.")
    ] = None,
    precision: Annotated[
        list[str] | None, typer.Option(help="fp32 (strict) and fp16 if not given, or tf32; repeatable.")
    ] = None,
    seconds: Annotated[float, typer.Option(help="Seconds that each implementation runs in each round.")] = 10,
    rounds: Annotated[
        int,
        typer.Option(
            help="Number of rounds. Every implementation runs once per round; each second round reverses the order."
        ),
    ] = 4,
    seed: Annotated[int | None, typer.Option(help="Of the random order; drawn if not given.")] = None,
    save: Save = False, results: Folder = None,
) -> None:  # fmt: skip
    """Meter the energy of an image, mJ above idle power; exit status 1 if results are wrong, 2 if it cannot be metered.

    What it will take is printed first: with torch.compile, minutes for each batch and precision.
    """
    from . import energy as suite

    _run(
        suite, backends=backend, batches=batch, precisions=precision, seconds=seconds, rounds=rounds, seed=seed,
        save=save, folder=results,
    )  # fmt: skip
