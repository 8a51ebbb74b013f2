"""The command line: python -m common COMMAND. Every command imports what it needs when it runs."""

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from .commands import data, learning, networks
from .commands.errors import Commands, fail

app = typer.Typer(
    cls=Commands, help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)
app.command()(learning.lab)
app.command()(learning.progress)
app.command()(networks.demo)
app.command()(networks.classify)
app.command()(networks.compare)
app.command()(networks.profile)


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
    from .cuda.graphs import NoGpu

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
    from .cuda.graphs import NoGpu
    from .measure.energy import Unmetered

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


app.command()(networks.tune)
app.command()(learning.milestone)
app.command()(learning.generate)
app.command()(learning.doctor)
app.command()(data.topology)
app.add_typer(data.images_app, name="images")
app.add_typer(data.weights_app, name="weights")


def main() -> None:
    """Run the command of sys.argv. SIGTERM ends it as sys.exit does: temporary files are removed."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    app()


if __name__ == "__main__":
    main()
