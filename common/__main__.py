"""The command line: python -m common COMMAND. Every command imports what it needs when it runs."""

import typer

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


if __name__ == "__main__":
    app()
