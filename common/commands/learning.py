"""Commands for learners: lab, progress, milestone; and generate, doctor."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from .errors import explanation, fail


def lab(
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Make the copies and exit; JupyterLab is not started.")
    ] = False,
    update: Annotated[bool, typer.Option("--update", help="The same, after a git pull.")] = False,
    reset: Annotated[str | None, typer.Option(metavar="NOTEBOOK", help="Set one aside, make it anew, exit.")] = None,
    into: Annotated[Path | None, typer.Option(help="The folder of the copies; work/ if not given.")] = None,
    port: Annotated[int | None, typer.Option(help="JupyterLab's port.")] = None,
    browser: Annotated[bool, typer.Option(help="Whether JupyterLab, once started, opens a browser.")] = True,
    allow_root: Annotated[
        bool, typer.Option("--allow-root", help="Start JupyterLab as root; in a container it needs no permission.")
    ] = False,
) -> None:
    """Make your own copies of the notebooks in work/, and open JupyterLab on the start page.

    What you have written is never overwritten: a newer source is put beside your copy.
    """
    from rich.console import Console

    from ..check import exercises

    root = exercises.REPOSITORY
    work = (into or root / "work").absolute()
    if not any(root.glob("[0-9][0-9]_*/*.ipynb")):
        raise fail(f"lab: no notebooks beside the package, in {root}: clone the repository and run make lab there")
    from ..check import copies, start

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
            console.print(f"{change.path}: {change.what}. {change.detail}".rstrip(), markup=False, soft_wrap=True)
    if not changes:
        console.print("every copy is up to date")
    if no_open or update or reset is not None:
        return
    if not work.is_relative_to(root):
        raise fail(f"--into: JupyterLab opens folders inside of {root}, got {work}; --no-open makes copies anywhere")
    if importlib.util.find_spec("jupyterlab") is None:
        raise ModuleNotFoundError(name="jupyterlab")
    page = (work / start.PAGE).relative_to(root).as_posix()
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={root}"]
    command += [f"--LabApp.default_url=/lab/tree/{page}"]
    command += [f"--ServerApp.port={port}"] if port is not None else []
    command += [] if browser else ["--no-browser"]
    command += as_root(allow_root)
    try:
        raise typer.Exit(subprocess.run(command, cwd=work, check=False).returncode)
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


CONTAINERS = (Path("/.dockerenv"), Path("/run/.containerenv"))  # files that Docker and Podman put into a container


def as_root(allowed: bool) -> list[str]:
    """The option with which JupyterLab runs as root; [] for another user.

    allowed: whether outside of a container, too. Raises typer.Exit, after a line that says what to type, if it is not.
    """
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return []
    if allowed or any(path.exists() for path in CONTAINERS):
        return ["--allow-root"]
    again = f"{os.path.relpath(sys.executable)} -m common lab --allow-root"
    raise fail(f"lab: JupyterLab does not run as root unless you allow it: {again}")


def progress(
    notebooks: Annotated[bool, typer.Option("--notebooks", help="One row per notebook.")] = False,
) -> None:
    """What you have done: exercises, hints, predictions, milestones."""
    from rich.console import Console

    from ..check import exercises, start
    from ..lab import progress as record

    work = record.work_folder() or record.work_folder(exercises.REPOSITORY / "work")
    if work is None:
        raise fail("progress: there is no learner's folder yet: make lab makes it")
    start.write(work)
    Console(highlight=False).print(start.table(work=work, each=notebooks))
    data = record.load(work)
    taken = sorted(name for name, whose in data["engine"].items() if whose == "reference")
    if taken:
        print(f"of the reference engine: {', '.join(taken)}")
    print(f"the start page, {os.path.relpath(work / start.PAGE)}, shows the same with links")


def milestone(
    chapter: Annotated[
        int | None,
        typer.Argument(min=1, max=6, help="If not given, the first one not passed; with --report all of them."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE.csv", help="Write a row per learner and milestone; record nothing.")
    ] = None,
    learners: Annotated[
        list[Path] | None,
        typer.Option(metavar="FOLDER", help="With --report: a learner's folder, or one with a folder per learner."),
    ] = None,
) -> None:
    """Try your engine in work/engine on a chapter's held-out networks; exit status 0 if it passes, 1 if not.

    With --report the status is 0 when the file is written, whoever passes. The engines' code runs with your rights.
    """
    from ..lab import milestones

    if learners and report is None:
        raise fail("--learners: expected --report FILE.csv with it, for the results")
    place = None if learners else milestones.find_engine()
    if not learners and place is None:
        raise fail("there is no folder work/ here: make lab makes it")
    if report is not None:
        from ..lab import grades

        if chapter is not None and chapter not in milestones.CHAPTERS:
            raise fail(f"--report: {milestones.none_yet(chapter)}")
        try:
            found = grades.find_learners([place.parent] if place else learners or [])
        except ValueError as error:
            raise fail(f"--learners: {error}" if learners else f"--report: {error}") from None
        chapters = milestones.CHAPTERS if chapter is None else (chapter,)
        try:
            grades.write(report, found, chapters)
        except (ValueError, OSError) as error:
            raise fail(f"--report: {explanation(error)}") from None
        print(f"{report}: {len(found) * len(chapters)} rows")
        return
    if not milestones.run(chapter, engine=place):
        raise typer.Exit(1)


def handout(
    folder: Annotated[Path, typer.Argument(help="A new or empty folder for the course.")],
    hold_back: Annotated[
        list[str], typer.Option(metavar="NAME", help="An exercise, or all of a chapter (04) or a notebook (5_gemm).")
    ],
) -> None:
    """For teachers: write the course into a folder, without the hints and the solutions of some exercises."""
    from ..check import handout

    try:
        exercises, left = handout.chosen(hold_back)
    except (LookupError, ValueError) as error:
        raise fail(f"--hold-back: {error.args[0]}") from None
    if not exercises:
        raise fail(f"--hold-back: none of these can be held back: {', '.join(left) or 'there are no exercises'}")
    count = handout.make(folder, exercises)
    print(f"{folder}: {count} files, without hints and solutions of {len(exercises)} exercises:")
    print(", ".join(exercise.name for exercise in exercises))
    if left:
        print(f"not held back, as milestones compare with the reference's kernels: {', '.join(left)}")


def generate(
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit status 1 if something is stale.")
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Also execute the notebooks that show records, after new ones: half an hour.")
    ] = False,
) -> None:
    """Make what is made of files anew: tables, plots and figures in sentences, hints, links, the glossary.

    With --all, after new records: the outputs of notebooks' cells that show records as well.
    """
    from .. import demo
    from ..check import unfold
    from ..draw import course
    from ..lab import glossary, links, online, syllabus
    from ..report import cells, figures, folded, generated, pictures, results, schema, stages, tables

    every = [*figures.FIGURES, *course.FIGURES, *demo.FIGURES]
    known = tables.texts() | folded.texts() | schema.texts() | pictures.texts() | stages.texts()
    known |= online.texts() | syllabus.texts()
    fine = [
        generated.run(check, known),
        figures.run(check, every),
        unfold.run(check),
        links.run(check),
        online.run(check),
    ]
    fine.append(glossary.run(check))
    if everything:
        fine.append(cells.run(results.course(), check))
    if not all(fine):
        print(f"Stale: python -m common generate{' --all' if everything else ''}", file=sys.stderr)
        raise typer.Exit(1)


def doctor() -> None:
    """Say what is installed, what is missing and what mends it; exit status 1 if something needed is missing."""
    from rich.console import Console

    from ..doctor import run

    if not run(Console(highlight=False)):
        raise typer.Exit(1)
