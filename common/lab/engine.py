"""The learner's engine: a package `engine` in work/engine/ that grows from notebook to notebook.

In a notebook,

    %%engine graph.py layers
    … a cell …

runs the cell and saves it as the part `layers` of work/engine/graph.py. Later notebooks import it: `from engine import
graph`. FILES (engine_files.py) lists what each file must define. `use_reference("graph")` replaces the learner's file
by that of the reference engine (common/lab/reference/engine). Outside work/, as when a source notebook is executed, the
engine is a copy of the reference in a temporary folder, one per kernel.

A kernel, `%%engine kernels/add.cu`, is checked by its exercise before it is saved, and is launched by
`from engine import kernels` and `kernels.add(a, b, out, n)` (engine_kernels.py).
"""

import ast
import contextlib
import difflib
import importlib
import inspect
import linecache
import os
import re
import sys
import tempfile
import textwrap
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import abc, machinery, util
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, NoReturn

from . import markup, progress
from .engine_files import FILES
from .engine_kernels import EngineKernel

REFERENCE = Path(__file__).parent / "reference" / "engine"
PACKAGE = "engine"


# ---- The engine's folder


_temporary: tempfile.TemporaryDirectory | None = None


def folder(start: Path | None = None) -> Path:
    """The folder of the package `engine` for a session in the folder `start` (default: the current one).

    Within work/ it is work/engine, created if needed; elsewhere a temporary folder of this process, initially a copy of
    the reference engine.
    """
    work = progress.work_folder(start)
    if work is not None:
        _begin(work / PACKAGE)
        return work / PACKAGE
    global _temporary
    if _temporary is None:
        _temporary = tempfile.TemporaryDirectory(prefix="engine-")
        _begin(Path(_temporary.name) / PACKAGE)
        for file in FILES:
            if (REFERENCE / file).exists():
                progress.write_text(Path(_temporary.name) / PACKAGE / file, reference_text(file))
    return Path(_temporary.name) / PACKAGE


def _begin(path: Path) -> None:
    """Create an empty package unless it exists."""
    path.mkdir(parents=True, exist_ok=True)
    if not (path / "__init__.py").exists():
        progress.write_text(path / "__init__.py", '"""An inference engine, made chapter by chapter."""\n')


def file_called(name: str) -> str:
    """The engine's file for a name with or without suffix: "graph" → "graph.py", "kernels/add" → "kernels/add.cu".

    Raises ValueError, with similar names, if there is no such file.
    """
    for file in FILES:
        if name in (file, file.rpartition(".")[0]):
            return file
    near = difflib.get_close_matches(name, FILES, n=2, cutoff=0.5)
    meant = f"did you mean {' or '.join(near)}?" if near else f"the engine has {', '.join(FILES)}"
    raise ValueError(f"the engine has no file {name!r}: {meant}")


# ---- Parts of a file


_PART = re.compile(r"^(?:#|//) -- part: (?P<name>\S+)(?P<reference> \(reference\))?$", re.M)


@dataclass(frozen=True)
class Part:
    """One part of a file, saved by one cell. reference: whether it comes from the reference engine."""

    text: str
    reference: bool = False


WHOLE = "whole"  # the part that marks the reference's text of a file without parts


def parts(text: str) -> dict[str, Part]:
    """The parts of a file's text by name, in order; the text before the first separator is the part ""."""
    starts = list(_PART.finditer(text))
    found = {"": Part(text[: starts[0].start()] if starts else text)}
    for start, after in zip(starts, [*starts, None][1:], strict=True):
        body = text[start.end() : after.start() if after else len(text)]
        found[start["name"]] = Part(body.strip("\n") + "\n", bool(start["reference"]))
    return {name: part for name, part in found.items() if name or part.text.strip()}


def joined(these: dict[str, Part], file: str) -> str:
    """The text of a file with these parts; inverse of `parts`."""
    comment = "//" if file.endswith(".cu") else "#"
    texts = []
    for name, part in these.items():
        mark = f"{comment} -- part: {name}{' (reference)' if part.reference else ''}\n" if name else ""
        texts.append(mark + part.text.strip("\n") + "\n")
    return ("\n" if file.endswith(".cu") else "\n\n").join(texts)


def reference_parts(file: str) -> dict[str, str]:
    """The parts of a reference file, with solution marks as in the notebooks; {} if there is no such file."""
    path = REFERENCE / file
    if not path.exists():
        return {}
    return {name: part.text for name, part in parts(path.read_text(encoding="utf-8")).items()}


def reference_text(file: str) -> str:
    """The text of a reference file without solution marks, each part marked as the reference's."""
    cuda = file.endswith(".cu")
    these = reference_parts(file).items()
    plain = {name or WHOLE: Part(markup.plain(text, cuda), True) for name, text in these}
    return joined(plain, file)


def whose(path: Path) -> str:
    """The owner of an engine's file: "own", "reference" if any part is the reference's, "" if there is no file."""
    if not path.exists():
        return ""
    these = parts(path.read_text(encoding="utf-8"))
    return "reference" if any(part.reference for part in these.values()) else "own"


# ---- Saving


def save(file: str, part: str, text: str) -> str:
    """Save a text as a part of an engine's file, or as the entire file if `part` is "". Returns a message.

    Parts are stored in the reference's order, further ones after them in the order of saving. The file is replaced
    atomically, and imported modules of the engine are reloaded.
    Raises ValueError for an unknown file, and for a part name that looks like a misspelt known one.
    """
    file, cuda = file_called(file), file.endswith(".cu")
    known = list(reference_parts(file))
    if part and part not in known:
        if not re.fullmatch(r"\w+", part):
            raise ValueError(f"part: must be one word, got {part!r}")
        if near := difflib.get_close_matches(part, known, n=1, cutoff=0.8):
            raise ValueError(f"{file} has no part {part!r}: did you mean {near[0]}?")
    new = Part(markup.plain(text, cuda))
    before = _current_parts(file) if part else {}  # without a part, the text replaces the file
    these = before | {part: new}
    progress.write_text(folder() / file, joined(_ordered(these, file), file))
    _record_owner(file)
    message = f"✓ engine/{file}: saved" + (f", part {part}" if part else "")
    chapter = Path(FILES[file].notebook).parent
    expected = [name for name in known if Path(FILES[file].notebook_of(name)).parent == chapter]
    missing = [name for name in expected if name not in these] if part else []
    return message + (f" (still to come: {', '.join(missing)})" if missing else "") + _not_own(these, file)


def _not_own(these: dict[str, Part], file: str) -> str:
    """A note on the parts of a learner's file that are still the reference's; "" if there are none."""
    taken = [name for name, part in these.items() if part.reference]
    if not taken or progress.work_folder() is None:
        return ""
    note = f" (still the reference's: {', '.join(taken)})"
    return note + (f". To bring back your own: {_call('use_own', file)}" if _backups(file) else "")


def _record_owner(file: str) -> None:
    """Record the owner of a changed file and reload the engine's modules."""
    now = whose(folder() / file)
    if progress.work_folder() is not None:
        progress.update(lambda data: data["engine"].update({file: now}))
    reload_modules()


def keep(file: str, *functions: Callable) -> None:
    """Save functions of a notebook as parts of an engine's file, each under its own name.

    For answers to exercises: `keep("graph.py", same_padding)`. A stub is reported and not saved.
    Raises TypeError for an object that is not a function with source text.
    """
    for function in functions:
        try:
            text = textwrap.dedent(inspect.getsource(function))
        except (OSError, TypeError):
            raise TypeError(f"functions: expected functions written in this notebook, got {function!r}") from None
        name = function.__name__
        if markup.is_stub(text):
            print(f"✗ engine/{file_called(file)}, part {name}: not started yet, nothing is saved.")
        else:
            print(save(file, name, text))


def use_reference(name: str) -> None:
    """Replace a file of the engine by the reference's, `use_reference("graph")`; milestones will mention it.

    A file with the learner's own parts is renamed graph.own.py; `use_own("graph")` restores it.
    Raises ValueError for a file that the engine or the reference does not have.
    """
    file = file_called(name)
    if not reference_parts(file):
        raise ValueError(f"the reference has no {file} yet: it comes with chapter {FILES[file].chapter:02}")
    aside = _set_aside(file)
    progress.write_text(folder() / file, reference_text(file))
    _record_owner(file)
    print(
        f"engine/{file} is the reference's now."
        + (f" Yours is kept as {aside}: {_call('use_own', file)}." if aside else "")
    )


def use_own(name: str) -> None:
    """Restore the file that use_reference renamed last, in place of the reference's.

    Parts saved since then are retained. If one replaces a part of the renamed file, that file is not deleted.
    Raises ValueError if there is no renamed file.
    """
    file = file_called(name)
    kept = _backups(file)
    if not kept:
        raise ValueError(f"no {file} of your own is kept aside")
    older = parts(kept[-1].read_text(encoding="utf-8"))
    newer = {part: one for part, one in _current_parts(file).items() if not one.reference}
    replaced = [part for part, one in newer.items() if part in older and older[part].text.strip() != one.text.strip()]
    progress.write_text(folder() / file, joined(_ordered(older | newer, file), file))
    message = f"engine/{file} is yours again."
    if newer:
        message += f" Saved since then, and kept: {', '.join(part or 'the whole file' for part in newer)}."
    if replaced:
        message += f" The older text is in {kept[-1].name}."
    else:
        kept[-1].unlink()
    _record_owner(file)
    print(message)


def _current_parts(file: str) -> dict[str, Part]:
    """The parts of a file of the engine, {} if it does not exist."""
    path = folder() / file
    return parts(path.read_text(encoding="utf-8")) if path.exists() else {}


def _ordered(these: dict[str, Part], file: str) -> dict[str, Part]:
    """The parts sorted in the reference's order, further ones after them."""
    known = list(reference_parts(file))
    order = [*(name for name in ["", *known] if name in these), *(name for name in these if name and name not in known)]
    return {name: these[name] for name in order}


def _call(function: str, file: str) -> str:
    return f'{function}("{file.rpartition(".")[0]}")'


def _backups(file: str) -> list[Path]:
    """The learner's renamed files, latest last: graph.own.py, graph.own2.py, …"""
    path = folder() / file
    found = path.parent.glob(f"{path.stem}.own*{path.suffix}")
    return sorted(found, key=lambda p: int(p.suffixes[-2].removeprefix(".own") or 1))


def _set_aside(file: str) -> str:
    """Rename a file that has parts of the learner's own. Returns its new name, "" if it has none."""
    path = folder() / file
    if all(part.reference for part in _current_parts(file).values()):
        return ""
    number = len(_backups(file)) + 1
    while (aside := path.with_name(f"{path.stem}.own{number if number > 1 else ''}{path.suffix}")).exists():
        number += 1
    os.replace(path, aside)
    return aside.name


# ---- Importing


class NotWrittenError(ImportError, NotImplementedError):
    """A file of the engine, or a part of one, that the learner has not written yet."""


class _Loader(machinery.SourceFileLoader):
    """Loads modules from source every time: bytecode caches miss a change within the same second and of the same size.

    Accessing a name that the module lacks raises an error that says which notebook writes it.
    """

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        file = Path(self.path).name
        if file in FILES and "__getattr__" not in vars(module):

            def absent(name: str) -> NoReturn:
                part = _part_defining(name, file)
                raise NotWrittenError(missing(file, part)) if part else AttributeError(f"engine/{file} has no {name!r}")

            vars(module)["__getattr__"] = absent

    def get_code(self, fullname: str) -> Any:
        path = self.get_filename(fullname)
        linecache.checkcache(path)
        absent = fullname == PACKAGE and not Path(path).exists()  # an engine handed in without its __init__.py
        return self.source_to_code(b"" if absent else self.get_data(path), path)


KERNELS = f"{PACKAGE}.kernels"


class _KernelsLoader(abc.Loader):
    """Loads the module engine.kernels, whose names are the kernels of the engine's folder where()."""

    def __init__(self, where: Callable[[], Path]) -> None:
        self.where = where

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its names (importlib's hook): each file is read when it is launched."""

        def kernel(name: str) -> EngineKernel:
            file = f"kernels/{name}.cu"
            if file not in FILES:
                known = ", ".join(file[len("kernels/") : -len(".cu")] for file in FILES if file.endswith(".cu"))
                raise AttributeError(f"engine.kernels has no {name!r}: it has {known}")
            path = self.where() / file
            if not path.exists():
                raise NotWrittenError(missing(file))
            return EngineKernel(name, path)

        vars(module)["__getattr__"] = kernel


class Finder:
    """Import finder for `engine` and its modules in the folder where(); a missing one raises NotWrittenError."""

    def __init__(self, where: Callable[[], Path]) -> None:
        self.where = where

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        """The import spec of `engine` or one of its modules, None for other modules (importlib's hook)."""
        if fullname == PACKAGE:
            place = self.where()
            return util.spec_from_file_location(
                fullname, place / "__init__.py", loader=_Loader(fullname, str(place / "__init__.py")),
                submodule_search_locations=[str(place)],
            )  # fmt: skip
        if fullname == KERNELS:
            return machinery.ModuleSpec(fullname, _KernelsLoader(self.where), is_package=False)
        file = fullname.removeprefix(f"{PACKAGE}.") + ".py"
        if not fullname.startswith(f"{PACKAGE}.") or file not in FILES:
            return None
        source = self.where() / file
        if not source.exists():
            raise NotWrittenError(missing(file))
        return util.spec_from_file_location(fullname, source, loader=_Loader(fullname, str(source)))


def missing(file: str, part: str = "") -> str:
    """A message that says how to write a missing file of the engine, or a missing part of it."""
    use = _call("use_reference", file)
    offer = f" To go on with the reference's, run this in a new cell: {use}" if reference_parts(file) else ""
    notebook = FILES[file].notebook_of(part)
    if part in FILES[file].kept:
        place = f"under “{FILES[file].kept[part]}” in {notebook}"
        return f'{part} is not in {file} yet. Run keep("{file}", {part}) {place}.{offer}'
    what = f"the part {part} of {file} is not written" if part else f"your engine has no {file}"
    first = "" if part else next(iter(reference_parts(file)), "")
    begin = f", beginning with the cell of {first}" if first else ""
    return f"{what} yet: {notebook} writes it{begin}.{offer}"


def unwritten(error: BaseException) -> str:
    """The message of `missing` for a NameError caused by an unwritten part of an engine's file; "" for other errors."""
    frames = traceback.extract_tb(error.__traceback__)
    if type(error) is not NameError or not frames or not error.name:
        return ""
    places = {str(Path(path)) for path in getattr(sys.modules.get(PACKAGE), "__path__", [])}
    path = Path(frames[-1].filename)
    part = _part_defining(error.name, path.name) if path.name in FILES and str(path.parent) in places else ""
    return missing(path.name, part) if part else ""


def _part_defining(name: str, file: str) -> str:
    """The part of a reference file that defines or imports a name at top level; "" if none does."""
    for part, text in reference_parts(file).items():
        for node in ast.parse(text).body:
            imported = node.names if isinstance(node, ast.Import | ast.ImportFrom) else []
            if name in (getattr(node, "name", None), *(one.asname or one.name for one in imported)):
                return part
    return ""


def open_engine(where: Callable[[], Path] = folder) -> None:
    """Make `import engine` find the package in the folder where(), replacing any engine opened before."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, Finder)]
    for name in [name for name in sys.modules if name == PACKAGE or name.startswith(f"{PACKAGE}.")]:
        del sys.modules[name]
    sys.meta_path.insert(0, Finder(where))
    importlib.invalidate_caches()


def reload_modules() -> None:
    """Reload the engine's imported modules, dependencies first.

    The module objects stay the same, so that a notebook's name `graph` refers to the saved code. A module that fails to
    load is removed from sys.modules; the next import raises its error.
    """
    importlib.invalidate_caches()
    for file in FILES:
        name = f"{PACKAGE}.{file.removesuffix('.py')}"
        module = sys.modules.get(name)
        if module is None:
            continue
        for attribute in [key for key in vars(module) if not key.startswith("__")]:
            delattr(module, attribute)
        try:
            importlib.reload(module)
        except Exception:
            sys.modules.pop(name, None)
            with contextlib.suppress(KeyError, AttributeError):
                delattr(sys.modules[PACKAGE], file.removesuffix(".py"))


# ---- The magic


UNCHECKED = "  Saved does not mean right: the cells below check it. A corrected cell replaces what is saved."


class NotSavedError(ValueError):
    """A cell was not saved as a part of the engine; the message is for the learner."""


def engine_magic(line: str, cell: str, ipython: Any = None, judge: Callable[[str, str], bool] | None = None) -> None:
    """%%engine FILE [PART]: run the cell and save it as a part of work/engine/FILE; CUDA C++ is compiled instead.

    A cell that is still a stub or that raises is not saved, and the file is unchanged. A kernel that has an exercise is
    saved only if its results are right.

    judge   (exercise's name, text) → whether the results are right; shows the verdict. None: saved without a check
    """
    file, _, part = line.strip().partition(" ")
    try:
        if not file:
            raise NotSavedError("%%engine FILE [PART]: which file? " + ", ".join(FILES))
        file, part = file_called(file), part.strip()
    except ValueError as error:
        _refuse(str(error))
    what = f"engine/{file}" + (f", part {part}" if part else "")
    shell = ipython if ipython is not None else _shell()
    text = markup.plain(cell, cuda=file.endswith(".cu"))
    counted = f"# %%engine {line}\n{cell}"  # line numbers as in the editor
    try:
        if markup.is_stub(text):
            _run_stub(counted, shell, file)
            raise NotSavedError(
                f"✗ {what}: not started yet. Still to write: {'; '.join(_to_write(text))}. Nothing is saved."
            )
        exercise = FILES[file].exercise if judge is not None else ""
        if judge is not None and exercise:
            if not judge(exercise, f"\n{cell}"):  # line numbers as in the editor
                before = "; what was saved before stays" if (folder() / file).exists() else ""
                raise NotSavedError(f"✗ {what}: not saved{before}.")
        elif file.endswith(".cu"):
            _compile(text, what)
        else:
            _execute(counted, shell, what)
    except NotSavedError as error:
        print(error)
        return
    try:
        print(save(file, part, cell))
    except ValueError as error:
        _refuse(str(error))
    if progress.work_folder() is not None and not exercise:
        print(UNCHECKED)


def _refuse(message: str) -> NoReturn:
    """Raise an error about the magic's own line: IPython's UsageError if available, else NotSavedError."""
    try:
        from IPython.core.error import UsageError
    except ImportError:
        raise NotSavedError(message) from None
    raise UsageError(message) from None


def _shell() -> Any:
    from IPython import get_ipython

    return get_ipython()


def _execute(cell: str, shell: Any, what: str) -> None:
    """Run the cell in the notebook's namespace. If it raises, print that nothing was saved and re-raise."""
    try:
        _run(cell, shell, what)
    except BaseException:
        print(f"✗ {what}: not saved, the cell raised an error.")
        raise


def _run(cell: str, shell: Any, what: str) -> None:
    number = getattr(shell, "execution_count", 0)
    name = shell.compile.cache(cell, number, cell) if hasattr(shell, "compile") else f"<{what}>"
    code = compile(ast.parse(cell, name), name, "exec")
    exec(code, shell.user_ns if shell is not None else {})


def trace_of_cell(trace: TracebackType | None) -> tuple[bool, TracebackType | None]:
    """(whether a traceback passes through an %%engine cell, the traceback from the cell's own frame on)."""
    while trace is not None:
        if trace.tb_frame.f_code is _run.__code__:
            return True, trace.tb_next
        trace = trace.tb_next
    return False, None


def _run_stub(cell: str, shell: Any, file: str) -> None:
    """Run a cell that is still a stub, so that calls of its functions say what to write."""
    if not file.endswith(".cu"):
        with contextlib.suppress(NotImplementedError):
            _run(cell, shell, f"engine/{file}")


def _compile(source: str, what: str) -> None:
    """Compile CUDA C++; raises NotSavedError with the compiler's messages if that fails."""
    from .. import cuda
    from ..kernels.ladder import header_options

    try:
        cuda.RawModule(source, options=tuple(header_options()))
    except cuda.CompileError as error:
        raise NotSavedError(f"✗ {what}: not saved, it does not compile.\n{error}") from None


def _to_write(cell: str) -> list[str]:
    """The tasks of a cell's stubs."""
    found = re.findall(r"""NotImplementedError\(["']write: (.*)["']\)|// write: (.*)""", cell)
    return [python or cuda for python, cuda in found]


def register(ipython: Any, judge: Callable[[str, str], bool] | None = None) -> None:
    """Register %%engine, `import engine`, use_reference, use_own and keep in a notebook's kernel. judge: see there."""

    def magic(line: str, cell: str) -> None:
        engine_magic(line, cell, ipython, judge)

    magic.__doc__ = engine_magic.__doc__
    ipython.register_magic_function(magic, "cell", "engine")
    ipython.push({"use_reference": use_reference, "use_own": use_own, "keep": keep}, interactive=False)
    open_engine()
