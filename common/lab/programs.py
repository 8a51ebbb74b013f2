"""What notebook 05/3 does with programs: offsets for addresses, files that are refused, interrupted runs."""

import json
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .. import cuda
from ..network import Network
from ..network.saved import HEADER
from .engine_judging import address


def records(program: Any, view: Callable[[int, tuple[int, ...]], Any]) -> tuple[list[tuple[str, list[Any]]], int]:
    """(launches, bytes of the arena) of a program of the learner's engine, without addresses.

    launches: (name of a kernel, its arguments). An array in the arena becomes view(offset in bytes, shape), an array
    elsewhere a NumPy array, the same one in all launches that read it. The first record is "ends": input and output.
    """
    base, size = address(program.memory), program.memory.nbytes
    host: dict[int, np.ndarray] = {}

    def record(one: Any) -> Any:
        if not getattr(one, "ndim", 0):
            return one  # a number or None
        at = address(one)
        if 0 <= at - base < size:
            return view(at - base, one.shape)
        if at not in host:
            host[at] = cuda.asnumpy(one)
        return host[at]

    calls = [("ends", (program.input, program.output))]
    calls += [(launch.func.name, launch.args) for launch in program.launches]
    return [(name, [record(one) for one in args]) for name, args in calls], size


def with_header(saved: Path, name: str, **values: Any) -> Path:
    """A copy of a network that Network.save wrote, in the same folder under `name`, with other values in its header."""
    path = saved.with_name(name)
    with zipfile.ZipFile(saved) as old, zipfile.ZipFile(path, "w") as new:
        for entry in old.namelist():
            content = old.read(entry)
            new.writestr(entry, json.dumps(json.loads(content) | values) if entry == HEADER else content)
    return path


def refusal(path: Path) -> str:
    """What Network.load says of a file that it refuses, without the folder's name; "" if it loads the file."""
    try:
        Network.load(path)
    except ValueError as error:
        return str(error).replace(f"{path.parent}/", "")
    return ""


def whose(results: Sequence[np.ndarray], answers: Sequence[np.ndarray]) -> str:
    """For each result the number of the answer that it equals, bit for bit, counted from 1; "?" for none of them.

    ValueError for more than nine answers.
    """
    if len(answers) > 9:
        raise ValueError(f"answers must be at most nine, got {len(answers)}")
    equal = ([np.array_equal(one, answer) for answer in answers] for one in results)
    return "".join(str(same.index(True) + 1) if any(same) else "?" for same in equal)


def ruler(columns: int) -> str:
    """The numbers 0, 10, 20 … above the columns of a line of text, each from its own column on."""
    return "".join(f"{column:<10}" for column in range(0, columns, 10)).rstrip()
