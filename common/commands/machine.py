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
    """Compile a kernel and show registers, occupancy and the machine instructions of each line; no GPU is needed."""
    from rich.console import Console

    from ..cuda import CompileError
    from ..cuda.machine_code.inspection import inspect_source
    from ..kernels.ladder import header_options

    source = file.read_text(encoding="utf-8")
    names = re.findall(r'extern\s+"C"\s+__global__\s+[^;{]*?\b(\w+)\s*\([^()]*\)\s*\{', source)
    if kernel is None and len(names) != 1:
        several = f"name one of its kernels: {', '.join(names)}"
        raise fail(f"{file}: {several if names else 'it has no extern C kernel'}")
    options = (*header_options(), f"-I{file.resolve().parent}", *(f"-D{one}" for one in define or ()))
    try:
        found = inspect_source((source, options, ()), kernel or names[0], block, shared, arch)
        text = None if line is None else found.sass(line)
    except (ValueError, RuntimeError, CompileError) as error:
        raise fail(f"{file}: {error}") from None
    if text is not None:
        print(text)
    else:
        Console(highlight=False).print(found)
