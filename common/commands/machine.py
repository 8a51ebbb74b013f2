"""The command inspect: a kernel's machine code, on any machine."""

import re
from pathlib import Path
from typing import Annotated

import typer

from .errors import fail


def inspect(
    file: Annotated[Path, typer.Argument(help="A CUDA C++ file.", exists=True, dir_okay=False)],
    kernel: Annotated[str | None, typer.Argument(help='An extern "C" kernel of it; not needed if it has one.')] = None,
    block: Annotated[int, typer.Option(min=1, help="Threads per block.")] = 256,
    shared: Annotated[int, typer.Option(min=0, help="Bytes of dynamic shared memory per block.")] = 0,
    arch: Annotated[str, typer.Option(help="sm_75, sm_80, sm_89, sm_90 or sm_90a.")] = "sm_90",
    define: Annotated[list[str] | None, typer.Option("-D", help="NAME=VALUE, as for the compiler.")] = None,
    line: Annotated[int | None, typer.Option(min=1, help="Print the machine code of this line instead.")] = None,
) -> None:
    """Compile a kernel and show registers, occupancy and the machine instructions of each line; no GPU is needed.

    A kernel of the course's ladders has the -D options of its launcher, for the first dtype that it takes; -D changes
    them.
    """
    from rich.console import Console

    from ..cuda import CompileError
    from ..cuda.machine_code.inspection import inspect_source
    from ..kernels import sources
    from ..kernels.ladder import header_options

    source = file.read_text(encoding="utf-8")
    names = re.findall(r'extern\s+"C"\s+__global__\s+[^;{]*?\b(\w+)\s*\([^()]*\)\s*\{', source)
    if kernel is None and len(names) != 1:
        several = f"name one of its kernels: {', '.join(names)}"
        raise fail(f"{file}: {several if names else 'it has no extern C kernel'}")
    given = {one.partition("=")[0]: one for one in define or ()}
    ladders = (of_rung for path, of_rung in sources() if path == file.resolve())
    defaults = [one for one in next(ladders, header_options()) if _defined(one) not in given]
    options = (*defaults, f"-I{file.resolve().parent}", *(f"-D{one}" for one in given.values()))
    try:
        found = inspect_source((source, options, ()), kernel or names[0], block, shared, arch)
        text = None if line is None else found.sass(line)
    except CompileError as error:
        unknown = re.search(r'identifier "(\w+)" is undefined', str(error))
        mend = (
            f"\nA name that the kernel's launcher defines gets its value here: -D {unknown[1]}=VALUE" if unknown else ""
        )
        raise fail(f"{file}: {error}{mend}", lines=True) from None
    except (ValueError, RuntimeError) as error:
        raise fail(f"{file}: {error}") from None
    if text is not None:
        print(text)
    else:
        Console(highlight=False).print(found)
        if used := [one.removeprefix("-D") for one in options if _defined(one) not in (None, "HEADERS")]:
            print("compiled with", *(f"-D {one}" for one in used))


def _defined(option: str) -> str | None:
    """The name that an option of the compiler defines, None if it defines none."""
    return option.removeprefix("-D").partition("=")[0] if option.startswith("-D") else None
