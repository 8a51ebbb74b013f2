"""What oneDNN, the library behind PyTorch's convolutions on a CPU, runs for a piece of code."""

import os
import subprocess
import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Primitive:
    """One primitive that oneDNN ran: its kind ("convolution", "reorder"), its implementation, its arrays' layouts."""

    kind: str
    implementation: str
    layouts: str

    def __str__(self) -> str:
        return f"{self.kind:12} {self.implementation:24} {self.layouts}"


def primitives(code: str) -> list[Primitive]:
    """The primitives that oneDNN runs for Python code, in order; none if PyTorch here uses another library.

    The code runs in a process of its own, as oneDNN reads ONEDNN_VERBOSE when it is loaded. Raises RuntimeError, with
    the last line of its error, if the code fails.
    """
    environment = os.environ | {"ONEDNN_VERBOSE": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=environment)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["the code failed"])[-1])
    return parsed(done.stdout)


def parsed(verbose: str) -> list[Primitive]:
    """The primitives in what oneDNN prints with ONEDNN_VERBOSE=1."""
    found = []
    for line in verbose.splitlines():
        fields = line.split(",")
        if not line.startswith("onednn_verbose,") or "exec" not in fields:
            continue
        start = fields.index("exec")
        if len(fields) > start + 5:
            found.append(Primitive(fields[start + 2], fields[start + 3], _layouts(fields[start + 5])))
    return found


def _layouts(descriptors: str) -> str:
    """ "src:f32::blocked:acdb::f0 dst:…" as "src NHWC, dst …"; oneDNN writes abcd for NCHW."""
    names = {"abcd": "NCHW", "acdb": "NHWC"}
    parts = []
    for descriptor in descriptors.split():
        fields = descriptor.split(":")
        order = fields[fields.index("blocked") + 1] if "blocked" in fields else None
        if order:
            parts.append(f"{fields[0]} {names.get(order, order)}")
    return ", ".join(parts)
