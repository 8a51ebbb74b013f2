"""Cells of notebooks that show records: found in the source, executed anew when records have changed.

    of_records(notebook)      by index of a code cell: the names of records that it reads
    refresh(path)             executes the notebook, and stores what these cells show now, and of which records
    digest(root)              of the records; that of those which a notebook shows is in its metadata, as "records"

A cell reads records if it uses a function of `common.report` that loads them, or a name that was computed from one,
here or in a cell above. `python -m common generate --all` refreshes every notebook that has such a cell.
"""

import ast
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..files import replacing
from . import generated, results

# what loads records: modules of common.report, and names of others
MODULES = (
    "batches", "folded", "ladders", "layouts", "multiprocessor", "pools", "products", "race", "rates", "results",
    "rivals", "sections", "slots", "stages", "steps", "tables", "ways",
)  # fmt: skip
# of these modules what reads no record: formats, names, a kernel's text, times of this computer
PLAIN = {
    "tables": ("us", "markdown", "CARD", "NETWORK", "BATCHES", "DASH", "IMPLEMENTATIONS"),
    "ladders": ("excerpt", "live"),
    "products": ("lines", "traced", "STEPS"),
    "results": ("fastest", "find"),
    "oracle": ("of_this_card", "curves", "counted", "H200"),
    "card": ("MEMORY_LATENCY_NS", "L2_LATENCY_NS", "THREADS_PER_SM", "SHARED_BYTES_PER_SM", "SCHEDULERS_PER_SM"),
}
NAMES = {
    "common.optimize.tiles": ("SHIPPED",), "common.optimize": ("tiles",), "common.lab": ("oracle", "left"),
    "common.draw": ("card", "measured_levels"), "common.draw.card": ("measured",),
}  # fmt: skip
# the files of records, whose digest a notebook that shows them has in its metadata
FILES = ("06_optimize/results/**/*", "common/optimize/tiles*.json")
DIGEST = "records"
# tags: never compared; compared where the compiler is the pinned one, see conftest.py
IGNORED, COMPILED = "nbval-ignore-output", "machine-code"


# ---- Which cells show records


def code_cells(notebook: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """(index, source) of each code cell, without IPython's magics."""
    for i, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] == "code":
            source = generated.source(cell)
            if not source.startswith("%%"):
                yield i, re.sub(r"^(\s*)[%!].*$", r"\1pass", source, flags=re.MULTILINE)


def tags(cell: Mapping[str, Any]) -> list[str]:
    """A cell's tags."""
    return cell.get("metadata", {}).get("tags", [])


def of_records(notebook: Mapping[str, Any]) -> dict[int, set[str]]:
    """By index of each code cell that reads records: the names by which it does. A cell that cannot be parsed has none.

    An import alone reads nothing.
    """
    known: set[str] = set()
    found = {}
    for i, source in code_cells(notebook):
        try:
            tree = ast.parse(source)
        except SyntaxError:
            continue
        used: set[str] = set()
        for statement in tree.body:
            known |= _imported(statement)
            used |= _spread(statement, known)
        if used:
            found[i] = used
    return found


def _imported(statement: ast.stmt) -> set[str]:
    """The names that a statement imports and that load records."""
    names: set[str] = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                called = alias.asname or alias.name
                if (
                    (node.module == "common.report" and alias.name in MODULES)
                    or (node.module.startswith("common.report.") and node.module.rpartition(".")[2] in MODULES)
                    or alias.name in NAMES.get(node.module, ())
                ):
                    names.add(called)
    return names


def _spread(statement: ast.stmt, known: set[str]) -> set[str]:
    """The known names that a statement reads. What it binds is known from now on, or no more, if it reads none."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return set()
    read, bound = _names(statement)
    used = read & known
    if used:
        known |= bound
    elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.FunctionDef | ast.ClassDef):
        known -= bound  # loops and conditions may leave the old value
    return used


_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _names(node: ast.AST) -> tuple[set[str], set[str]]:
    """(names read, names bound) by a piece of source in the scope around it; inner scopes keep what they bind."""
    read: set[str] = set()
    bound: set[str] = set()
    if isinstance(node, ast.Name):
        (read if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        return read, bound
    if (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.attr in PLAIN.get(node.value.id, ())
    ):
        return read, bound
    if isinstance(node, ast.For | ast.If | ast.With):
        before: list[ast.AST] = [node.iter, node.target] if isinstance(node, ast.For) else []
        before += [node.test] if isinstance(node, ast.If) else []
        before += node.items if isinstance(node, ast.With) else []
        for child in (*before, *node.body, *getattr(node, "orelse", ())):
            inner_read, inner_bound = _names(child)
            read |= inner_read - bound  # what was bound above, in the same block
            bound |= inner_bound
        return read, bound
    for child in ast.iter_child_nodes(node):
        inner_read, inner_bound = _names(child)
        read |= inner_read
        bound |= inner_bound
    if isinstance(node, ast.FunctionDef | ast.Lambda):
        arguments = node.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        read -= bound | {one.arg for one in every if one is not None}
        bound = {node.name} if isinstance(node, ast.FunctionDef) else set()
    elif isinstance(node, ast.ClassDef):
        bound = {node.name}
    elif isinstance(node, _COMPREHENSIONS):
        read, bound = read - bound, set()
    return read, bound


def uncompared(notebook: Mapping[str, Any]) -> dict[int, set[str]]:
    """Those of `of_records` whose outputs no test compares: a stale figure could stay in them."""
    return {i: names for i, names in of_records(notebook).items() if IGNORED in tags(notebook["cells"][i])}


def constant_alts(notebook: Mapping[str, Any]) -> list[int]:
    """Cells of records that show a picture whose alternative text is fixed, and that does not name its records.

    nbval compares the texts and not the bytes of pictures, so it would not see that such a picture is stale.
    """
    found = []
    sources = dict(code_cells(notebook))
    for i in of_records(notebook):
        for node in ast.walk(ast.parse(sources[i])):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and (node.func.attr, getattr(node.func.value, "id", "")) == ("show", "plots")
                and len(node.args) > 1
                and isinstance(node.args[1], ast.Constant)
                and len(node.args) + len(node.keywords) < 3
            ):
                found.append(i)
    return found


def digest(root: Path) -> str:
    """A digest of all records, and of the tiles that were found on a card."""
    made = hashlib.sha256()
    for path in sorted({path for pattern in FILES for path in root.glob(pattern) if path.is_file()}):
        made.update(f"{path.relative_to(root).as_posix()}\n{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return made.hexdigest()[:16]


# ---- Executing them


@dataclass
class Refreshed:
    """What `refresh` did: the indices of cells whose outputs changed, and the error that ended it, if any."""

    path: Path
    changed: list[int] = field(default_factory=list)
    error: str | None = None

    def __str__(self) -> str:
        if self.error is not None:
            return f"{self.path.name}: {self.error}"
        cells = ", ".join(map(str, self.changed))
        return (
            f"{self.path.name}: cells {cells} show something else now" if self.changed else f"{self.path.name}: fresh"
        )


def notebooks(root: Path) -> list[Path]:
    """The notebooks of all chapters that have a cell of records."""
    every = sorted(root.glob("[0-9][0-9]_*/*.ipynb"))
    return [path for path in every if of_records(json.loads(path.read_text(encoding="utf-8")))]


def refresh(path: Path, check: bool = False, timeout: int = 900) -> Refreshed:
    """Execute a notebook in a fresh kernel, and store the outputs of cells that a test compares or that show records.

    Outputs that differ only in the bytes of pictures are replaced in cells of records alone; all others stay as they
    are, times of this computer among them. What goes to stderr, remarks of libraries, is not stored. check: change
    nothing. An error in a cell ends it, and nothing is stored.
    """
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError

    before = path.read_text(encoding="utf-8")
    notebook = json.loads(before)
    fresh = nbformat.reads(before, as_version=4)
    client = NotebookClient(
        fresh, timeout=timeout, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}},
        record_timing=False, extra_arguments=["--log-level=40"],
    )  # fmt: skip
    done = Refreshed(path)
    with _settings(path):
        try:
            client.execute()
        except (CellExecutionError, CellTimeoutError) as error:
            done.error = _last_line(error)
            return done
    recorded = of_records(notebook)
    count = 0
    for i, (cell, new) in enumerate(zip(notebook["cells"], fresh["cells"], strict=True)):
        if cell["cell_type"] != "code":
            continue
        if cell.get("execution_count") is not None:
            count += 1
            cell["execution_count"] = count
        outputs = [_plain(output, cell) for output in new["outputs"] if output.get("name") != "stderr"]
        if IGNORED in tags(cell) and i not in recorded:
            continue
        same = _shown(cell["outputs"]) == _shown(outputs)
        if not same:
            done.changed.append(i)
        if not same or (i in recorded and _pictures(cell["outputs"]) != _pictures(outputs)):
            cell["outputs"] = outputs
    if recorded:
        notebook["metadata"][DIGEST] = digest(results.course())
    after = generated.dumped(notebook)
    if not check and after != before:
        with replacing(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(after)
    return done


class _settings:
    """The environment in which tests execute a notebook, see conftest.py, for the time of a `with` block."""

    def __init__(self, path: Path) -> None:
        self._wanted = {
            "COURSE_SEED": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
            "COURSE_CXXFLAGS": "" if path.parent.name == "05_network" else "-Og",
        }  # fmt: skip
        self._before: dict[str, str | None] = {}

    def __enter__(self) -> None:
        self._before = {key: os.environ.get(key) for key in self._wanted}
        os.environ.update(self._wanted)

    def __exit__(self, *_: object) -> None:
        for key, value in self._before.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value


def _last_line(error: BaseException) -> str:
    lines = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip().splitlines()
    return lines[-1] if lines else type(error).__name__


_STREAMED, _COUNTED = re.compile(r"data:image/png;base64,[A-Za-z0-9+/=]+"), re.compile(r"passed \(\d+ checks?\)")


def _plain(output: Any, cell: Mapping[str, Any]) -> dict[str, Any]:
    """An output as the notebook's file has it: texts as lists of lines, the cell's own execution count."""
    made = json.loads(json.dumps(output))
    if "text" in made:
        made["text"] = _lines(made["text"])
    for kind, text in made.get("data", {}).items():
        if isinstance(text, str):
            made["data"][kind] = _lines(text)
    if "execution_count" in made:
        made["execution_count"] = cell["execution_count"]
    return dict(sorted(made.items()))


def _lines(text: str | list[str]) -> list[str]:
    return (text if isinstance(text, str) else "".join(text)).splitlines(keepends=True)


def _shown(outputs: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """What a reader sees of outputs as text: streams joined, pictures without their bytes, as nbval compares them."""
    parts: list[tuple[str, str]] = []
    for output in outputs:
        if output["output_type"] == "stream":
            kind, text = output["name"], "".join(output["text"])
        elif output["output_type"] == "error":
            kind, text = "error", f"{output['ename']}: {output['evalue']}"
        else:
            data = {key: "".join(v) if isinstance(v, list) else str(v) for key, v in output["data"].items()}
            kind, text = "data", "\n".join(data[one] for one in sorted(data) if not one.startswith("image/"))
        text = _COUNTED.sub("passed", _STREAMED.sub("data:image/png", text))
        if parts and parts[-1][0] == kind and output["output_type"] == "stream":
            parts[-1] = kind, parts[-1][1] + text
        else:
            parts.append((kind, text))
    return parts


def _pictures(outputs: Iterable[Mapping[str, Any]]) -> list[str]:
    return [one for output in outputs for one in _STREAMED.findall(json.dumps(output))]


def run(root: Path, check: bool = False, only: Iterable[Path] = ()) -> bool:
    """Refresh every notebook with cells of records, and print what happened. Returns whether all went well.

    check: whether nothing is stale. only: these notebooks.
    """
    fine = True
    for path in list(only) or notebooks(root):
        done = refresh(path, check)
        print(f"{path.parent.name}/{done}", flush=True)
        fine = fine and done.error is None and not (check and done.changed)
    return fine
