"""The course without an installation, in Google Colab and in Binder; and the address of its repository.

The address stands in one place, pyproject.toml: [project.urls] Repository. `python -m common generate` writes it into
README and docs, the links of the chapters' pages, and the second cell of each notebook, tagged TAG, which sets up Colab
(colab.py) and does nothing elsewhere. Learners' copies are made without that cell.
"""

import json
import re
import tomllib
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from ..report import generated, tables
from ..report.results import course
from . import links

TAG = "colab"
START = "03_cudnn_baseline/0_a_gpu_in_an_hour.ipynb"  # where somebody begins who only wants to look
PUBLIC = ("topology", "weights", "images", "cuda", "kernels", "cudnn", "network")
_REPOSITORY = re.compile(r"https://github\.com/[\w.-]+/[\w.-]+")
_COLAB = "https://colab.research.google.com"
_BINDER = "https://mybinder.org"


def repository(root: Path | None = None) -> str:
    """The repository's address, "https://github.com/OWNER/NAME". ValueError if pyproject.toml has another form of it.

    root: the course's folder, by default the one of this package.
    """
    path = (root or course()) / "pyproject.toml"
    found = tomllib.loads(path.read_text(encoding="utf-8"))["project"].get("urls", {}).get("Repository")
    if not isinstance(found, str) or not _REPOSITORY.fullmatch(found):
        raise ValueError(
            f"pyproject.toml: [project.urls] Repository must be https://github.com/OWNER/NAME, got {found!r}"
        )
    return found


def colab(path: str, root: Path | None = None) -> str:
    """The address that opens a notebook of the repository in Google Colab. path: relative to the course's folder."""
    return f"{_COLAB}/github/{repository(root).removeprefix('https://github.com/')}/blob/main/{path}"


def binder(path: str, root: Path | None = None) -> str:
    """The address that opens a learner's copy in JupyterLab on Binder. path: relative to work/."""
    return f"{_BINDER}/v2/gh/{repository(root).removeprefix('https://github.com/')}/main?urlpath=lab/tree/work/{path}"


# ---- Texts between markers


def texts(root: Path | None = None) -> dict[str, Callable[[], str]]:
    """The functions that generate texts with addresses, and the lists of public names, by the name in their markers."""
    root = root or course()
    chapters = {
        f"open-{path.parent.name[:2]}": partial(_open, path, root)
        for path in reversed(links.notebooks(root))
        if path.parent.name == links.read_with(path)
    }
    return {
        **chapters,
        "clone": lambda: _clone(root),
        "clone-home": lambda: f"    cd ~\n    {_clone_line(root)}",
        "badges": lambda: _badges(root),
        "install": lambda: _install(root),
        "hours": lambda: _hours(root),
        "public": _public,
    }


def _clone_line(root: Path) -> str:
    address = repository(root)
    return f"git clone {address} && cd {address.rpartition('/')[2]}"


def _clone(root: Path) -> str:
    commands = {
        _clone_line(root): "",
        "make demo": "this repository's kernels classify pictures",
        "make lab": "your own copies of the notebooks, in JupyterLab",
    }
    return "\n".join(f"    {command:<16}# {what}" if what else f"    {command}" for command, what in commands.items())


def _install(root: Path) -> str:
    extras = {"": "", "[compiler]": "without a C++ compiler", "[gpu]": "an NVIDIA GPU; [gpu13] for CUDA 13"}
    commands = {f'pip install "mobilenetv2-engine-course{x} @ git+{repository(root)}"': w for x, w in extras.items()}
    return "\n".join(f"    {command}" + (f"  # {what}" if what else "") for command, what in commands.items())


def _badges(root: Path) -> str:
    return (
        f"[![Open “A GPU in an hour” in Colab]({_COLAB}/assets/colab-badge.svg)]({colab(START, root)})\n"
        f"[![Open all notebooks on Binder]({_BINDER}/badge_logo.svg)]({binder('START.md', root)})"
    )


def _open(first: Path, root: Path) -> str:
    """The links of a chapter's page. first: the chapter's first notebook."""
    path = first.relative_to(root).as_posix()
    return (
        f"Without installing: [the first notebook in Colab]({colab(path, root)}), with a GPU if you choose one,"
        " or [your copies of all"
        f" notebooks on Binder]({binder(f'{first.parent.name}/{first.name}', root)}), on the simulator."
    )


def _hours(root: Path) -> str:
    hours = re.findall(r"\| (\d+) \|$", tables.tracks(root), re.MULTILINE)
    return ", ".join(hours[:-1]) + f" and {hours[-1]}"


def _public() -> str:
    package = __name__.partition(".")[0]
    rows = []
    for name in PUBLIC:
        listed = import_module(f"{package}.{name}").__all__
        rows.append([f"`mobilenet_engine.{name}`", ", ".join(f"`{each}`" for each in listed)])
    return tables.markdown(["module", "names"], rows, 2)


# ---- The cell that sets up Colab


def cell(path: Path, root: Path | None = None) -> str:
    """The code of a notebook's set-up cell. path: of the notebook, in its chapter's folder."""
    return (
        "# @title In Google Colab, run this cell first. Elsewhere it does nothing.\n"
        'if "google.colab" in str(get_ipython()):\n'
        f'    repository = "{repository(root)}"\n'
        "    !test -d /content/course || git clone --quiet --depth 1 $repository /content/course\n"
        f"    %run /content/course/common/lab/colab.py {path.parent.name}"
    )


def is_set_up(cell: dict[str, Any]) -> bool:
    """Whether a notebook's cell is the one that sets up Colab."""
    return TAG in cell["metadata"].get("tags", [])


def _with_cell(notebook: dict[str, Any], text: str) -> dict[str, Any]:
    """The notebook with this code in its second cell, and without any other set-up cell."""
    others = [one for one in notebook["cells"] if not is_set_up(one)]
    count = next((one.get("execution_count") for one in notebook["cells"] if is_set_up(one)), None)
    # a folded cell in Colab and in JupyterLab; MyST leaves it out of a site
    metadata = {"cellView": "form", "jupyter": {"source_hidden": True}, "tags": [TAG, "remove-cell"]}
    source = text.splitlines(keepends=True)
    made = {
        "cell_type": "code",
        "execution_count": count,
        "id": TAG,
        "metadata": metadata,
        "outputs": [],
        "source": source,
    }
    return notebook | {"cells": [*others[:1], made, *others[1:]]}


def run(check: bool, root: Path | None = None) -> bool:
    """Rewrite stale set-up cells, or with `check` only list them. Returns True if none is left."""
    root, fine = root or course(), True
    for path in links.notebooks(root):
        before = path.read_text(encoding="utf-8")
        after = generated.dumped(_with_cell(json.loads(before), cell(path, root)))
        if after != before:
            where = path.relative_to(root)
            print(f"{where}: the cell for Colab is stale: python -m common generate" if check else f"{where}: written")
            fine = fine and not check
            if not check:
                path.write_text(after, encoding="utf-8", newline="\n")
    return fine
