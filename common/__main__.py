"""The command line: python -m common COMMAND. Every command imports what it needs when it runs."""

import signal
import sys
from typing import Annotated

import typer

from . import __version__
from .bench.commands import app as bench
from .bench.commands import energy
from .commands import data, learning, machine, many, networks
from .commands.errors import Commands

app = typer.Typer(
    cls=Commands, help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)


def _version(asked: bool) -> None:
    if asked:
        print(__version__)
        raise typer.Exit


@app.callback(help=__doc__)
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the course's version and exit.")
    ] = False,
) -> None:
    """Options of all commands."""


app.command()(learning.lab)
app.command()(learning.progress)
app.command()(networks.demo)
app.command()(networks.classify)
app.command()(many.label)
app.command()(many.serve)
app.command()(networks.compare)
app.command()(networks.profile)
app.add_typer(bench, name="bench")
app.command()(energy)
app.command()(networks.tune)
app.command()(networks.quantize)
app.command()(learning.milestone)
app.command()(learning.handout)
app.command()(learning.generate)
app.command()(learning.doctor)
app.command()(machine.inspect)
app.command()(data.topology)
app.add_typer(data.images_app, name="images")
app.add_typer(data.weights_app, name="weights")


def main() -> None:
    """Run the command in sys.argv. SIGTERM raises SystemExit, so that temporary files are removed."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    app()


if __name__ == "__main__":
    main()
