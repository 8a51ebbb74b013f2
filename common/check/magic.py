"""`%load_ext common.check`: the magic %%exercise, the name `check`, and errors that say what to do."""

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
    """Which cell defines an undefined name: the notebook and cell, in words; None if no cell does."""
    from .copies import who_defines  # imported late: it imports nbconvert

    where = who_defines(name, ran=_ran())
    return f"{where} defines it: do that first" if where else None


def _ran() -> set[str]:
    """The cells that this session has run, as they stand in the notebook."""
    from IPython import get_ipython

    shell = get_ipython()
    return {text.strip() for text in shell.history_manager.input_hist_raw if text.strip()} if shell else set()


def exercise(line: str, cell: str) -> Result | None:
    """%%exercise NAME: judge the rest of the cell as the answer to the exercise NAME.

    CUDA C++ is judged as source text. Python is first run as any cell, then the names that it defines are judged.
    Line numbers are the editor's: the magic itself is line 1.
    """
    try:
        task = find(line.strip())
    except LookupError as error:
        text = f"✗ {error}"
        feedback.show(text, feedback.formatted("✗", line.strip() or "%%exercise", str(error), ""))
        return None
    if task.is_cuda:
        return run(task.name, f"\n{cell}")
    return _run_python(task, f"# %%exercise {line}\n{cell}")


def _run_python(task: Exercise, cell: str) -> Result | None:
    """Run a cell in the notebook's namespace and judge the names that the exercise requires."""
    from IPython import get_ipython

    shell = get_ipython()
    names = list(inspect.signature(task.check()).parameters)
    older = {name: shell.user_ns.pop(name) for name in names if name in shell.user_ns}  # must not be judged
    success = shell.run_cell(cell, store_history=False).success
    missing = [name for name in names if name not in shell.user_ns]
    for name in missing:
        shell.user_ns.update({name: older[name]} if name in older else {})
    if not success:
        return None
    if missing:
        words = "✗", task.name, f"the cell defines no `{missing[0]}`", "leave the name of the function as it is"
        feedback.show(feedback.plain(*words), feedback.formatted(*words))
        return None
    return run(task.name, *(shell.user_ns[name] for name in names))


def _rung(line: str, cell: str) -> Any:
    from .rungs import rung  # imported late: it imports the tables of records

    return rung(line, cell)


def own_rung(ladder: str) -> Any:
    """The learner's rung of a ladder, checked by %%rung in this session: its trace and machine code, for later cells.

    Raises NotWrittenError, shown as "not started yet", if none was right yet.
    """
    from . import rungs  # imported late: it imports the tables of records

    return rungs.own_rung(ladder)


def _kernel_is_right(name: str, source: str) -> bool:
    """Judge a kernel of the engine by its exercise; whether its results are right, and it may be saved."""
    return run(name, source).right


# ---- Errors


def show_error(shell: Any, kind: type, error: BaseException, trace: Any, tb_offset: int | None = None) -> None:
    """Show a cell's exception: two lines if something is not written yet, else IPython's traceback.

    The traceback of an %%engine cell begins at the cell, without the magic's own frames.
    """
    in_engine_cell, own = engine.trace_of_cell(trace)
    if lines := _advice(shell, error, trace):
        shell._showtraceback(kind, error, lines)
    elif in_engine_cell:
        shell.showtraceback((kind, error, own), tb_offset=0)
    else:
        shell.showtraceback((kind, error, trace), tb_offset=tb_offset, running_compiled_code=True)


def _advice(shell: Any, error: BaseException, trace: Any) -> list[str]:
    """Lines that say what to do about an error caused by an unfinished cell; none for other errors."""
    if todo := unfinished(error):
        return [f"not started yet: {todo}", f"  {_where(shell, trace)}"]
    if isinstance(error, engine.NotWrittenError):
        return [f"not started yet: {error}"]
    if absent := engine.unwritten(error):
        return [f"not started yet: {absent}"]
    name = getattr(error, "name", None)
    if type(error) is not NameError or name is None:
        return []
    if name == "check":
        give_check(shell)
        return [f"NameError: {error}", "  it is now: run the cell again (`from common import check` defines it)"]
    advice = name_lookup(name)
    return [f"NameError: {error}", f"  {advice}"] if advice else []


def _where(shell: Any, trace: Any) -> str:
    """The function and the notebook line that raised an error, in words."""
    frames = traceback.extract_tb(trace)
    own = [frame for frame in frames if shell.compile.format_code_name(frame.filename)]
    frame = (own or frames)[-1]
    named = shell.compile.format_code_name(frame.filename)
    place = " ".join(named) if named else frame.filename
    inside = f"{frame.name}(), " if frame.name.isidentifier() else ""
    return f"in {inside}line {frame.lineno} of {place}"


def give_check(shell: Any) -> None:
    """Define `check` in the notebook's namespace unless it is defined."""
    shell.user_ns.setdefault("check", sys.modules[__package__])


def load_ipython_extension(ipython: Any) -> None:
    """Entry point of `%load_ext common.check`."""
    ipython.register_magic_function(exercise, "cell", "exercise")
    ipython.register_magic_function(_rung, "cell", "rung")
    engine.register(ipython, _kernel_is_right)
    give_check(ipython)
    ipython.set_custom_exc((Exception,), show_error)
