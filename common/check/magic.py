"""What `%load_ext common.check` brings into a notebook: %%exercise, the name `check`, errors that say what to do."""

import inspect
import sys
import traceback
from typing import Any

from ..lab import engine
from . import feedback
from .exercises import Exercise, find
from .judge import unfinished
from .runner import Result, run


def name_lookup(name: str) -> str | None:
    """What is said of a name that has no value: the notebook and the cell to do first; None if none defines it."""
    from .copies import who_defines  # only now: it brings nbconvert along

    where = who_defines(name)
    return f"you write it in {where}: do that first" if where else None


def exercise(line: str, cell: str) -> Result | None:
    """%%exercise NAME: judge the rest of the cell as the answer to the exercise NAME.

    CUDA C++ is the text of the kernel. Python is run first, as any cell is, and then what it defines is judged. Lines
    are counted as the editor does it: this one is line 1.
    """
    try:
        found = find(line.strip())
    except LookupError as error:
        text = f"✗ {error}"
        feedback.show(text, feedback.formatted("✗", line.strip() or "%%exercise", str(error), ""))
        return None
    if found.is_cuda:
        return run(found.name, f"\n{cell}")
    return _run_python(found, f"# %%exercise {line}\n{cell}")


def _run_python(found: Exercise, cell: str) -> Result | None:
    """Runs a cell in the notebook's namespace and judges the names that the exercise asks for."""
    from IPython import get_ipython

    shell = get_ipython()
    names = list(inspect.signature(found.check()).parameters)
    older = {name: shell.user_ns.pop(name) for name in names if name in shell.user_ns}  # is not to be judged
    success = shell.run_cell(cell, store_history=False).success
    missing = [name for name in names if name not in shell.user_ns]
    for name in missing:
        shell.user_ns.update({name: older[name]} if name in older else {})
    if not success:
        return None
    if missing:
        words = "✗", found.name, f"the cell defines no `{missing[0]}`", "leave the name of the function as it is"
        feedback.show(feedback.plain(*words), feedback.formatted(*words))
        return None
    return run(found.name, *(shell.user_ns[name] for name in names))


# ---- Errors


def show_error(shell: Any, kind: type, error: BaseException, trace: Any, tb_offset: int | None = None) -> None:
    """Shows an error of a cell: in two lines where something is not written yet, else as IPython does.

    Of an %%engine cell the lines of the cell and of what it calls are shown, without those of the magic.
    """
    in_engine_cell, own = engine.trace_of_cell(trace)
    if lines := _advice(shell, error, trace):
        shell._showtraceback(kind, error, lines)
    elif in_engine_cell:
        shell.showtraceback((kind, error, own), tb_offset=0)
    else:
        shell.showtraceback((kind, error, trace), tb_offset=tb_offset, running_compiled_code=True)


def _advice(shell: Any, error: BaseException, trace: Any) -> list[str]:
    """What an error says to somebody who works through the course, line by line; nothing of one that is no stub's."""
    if todo := unfinished(error):
        return [f"not started yet: {todo}", f"  {_where(shell, trace)}"]
    if isinstance(error, engine.NotWritten):
        return [f"not started yet: {error}"]
    if absent := engine.unwritten(error):
        return [f"not started yet: {absent}"]
    name = getattr(error, "name", None)
    if type(error) is not NameError or name is None:
        return []
    if name == "check":
        give_check(shell)
        return [f"NameError: {error}", "  it is now: run the cell again (`from common import check` defines it)"]
    told = name_lookup(name)
    return [f"NameError: {error}", f"  {told}"] if told else []


def _where(shell: Any, trace: Any) -> str:
    """The function and the line of the notebook that an error came from, in words."""
    frames = traceback.extract_tb(trace)
    own = [frame for frame in frames if shell.compile.format_code_name(frame.filename)]
    frame = (own or frames)[-1]
    named = shell.compile.format_code_name(frame.filename)
    place = " ".join(named) if named else frame.filename
    inside = f"{frame.name}(), " if frame.name.isidentifier() else ""
    return f"in {inside}line {frame.lineno} of {place}"


def give_check(shell: Any) -> None:
    """Defines `check` in a notebook that does not."""
    shell.user_ns.setdefault("check", sys.modules[__package__])


def load_ipython_extension(ipython: Any) -> None:
    """Called by `%load_ext common.check`."""
    ipython.register_magic_function(exercise, "cell", "exercise")
    engine.register(ipython)
    give_check(ipython)
    ipython.set_custom_exc((Exception,), show_error)
