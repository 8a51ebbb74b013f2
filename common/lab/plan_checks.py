"""What notebooks of chapters 05 and 06 show about the learner's planner and engine, on small networks."""

import importlib
from collections.abc import Iterator
from typing import Any

from .. import topology
from ..network.arena import Lifetime, place
from ..network.program import lives
from ..network.steps import fuse
from .cases import hard_swishes, inverted_residuals, shortcuts, small_resnet
from .engine_judging import DRAWN, FUNCTIONS, arena_flaw, drawn_ranges, judge_engine, plan_flaw, unfused
from .judging import MODULES
from .matching import Flaw, errors_located
from .step_judging import (
    judge_arguments,
    judge_inputs,
    judge_joins,
    judge_kernel_of,
    judge_parameters,
    judge_resized,
)

ALONE = {"inputs": judge_inputs, "kernel_of": judge_kernel_of, "joins": judge_joins}  # without a network
PARTS = {"parameters": judge_parameters, "arguments": judge_arguments, "resized": judge_resized}  # of engine.py
NETWORKS = {"a network with many shortcuts": shortcuts, "a small ResNet": small_resnet}


def _model(network: Any) -> Any:
    return topology.write_onnx(*network())


def _modules(*names: str) -> dict[str, Any]:
    """Modules of this session's engine. Raises Flaw for one that cannot be imported."""
    with errors_located():
        return {name: importlib.import_module(f"engine.{name}") for name in names}


def try_plan(function: str) -> None:
    """Print the first flaw of this session's plan.py up to a function, or that there is none.

    function: "inputs", "kernel_of" or "joins", which are judged on their own; or "dead_code", "fuse", "live_ranges" or
    "arena". "fuse" is judged after the first three. An arena must also be as small as largest first makes it, each
    tensor at the lowest free offset. ValueError for another one.
    """
    if function not in (*ALONE, *FUNCTIONS):
        raise ValueError(f"function: must be one of {', '.join((*ALONE, *FUNCTIONS))}, got {function!r}")
    try:
        if function in ALONE:
            _say(function, {ALONE[function](_modules("plan")["plan"]): ""})
            return
        modules = _modules(*MODULES[2], "plan")
        for judge in ALONE.values() if function == "fuse" else ():
            judge(modules["plan"])
        flaws = {name: plan_flaw(_model(network), modules, function) for name, network in NETWORKS.items()}
        if function == "arena" and not any(flaws.values()):
            flaws |= _arena_flaws(modules["plan"].arena)
    except Flaw as flaw:
        flaws = {"plan.py": str(flaw)}
    _say(function, flaws)


def _arena_flaws(arena: Any) -> dict[str, str]:
    """The flaw of `arena` on MobileNetV2 and on random live ranges, by name; "" where it has none."""
    flaws: dict[str, str] = {}
    for name, lifetimes in _lifetimes():
        ranges = {one.name: (one.bytes, one.first, one.last) for one in lifetimes}
        flaws[name] = flaws.get(name) or arena_flaw(ranges, arena, place(lifetimes).bytes)
    return flaws


def _lifetimes() -> Iterator[tuple[str, list[Lifetime]]]:
    graph = topology.build()
    yield "MobileNetV2", lives(graph, fuse(graph), 4)
    for ranges in drawn_ranges():
        yield f"{2 * DRAWN} networks drawn at random", [Lifetime(name, *one) for name, one in ranges.items()]


def try_engine(function: str = "") -> None:
    """Print the first flaw of this session's engine on two small networks, or that there is none.

    function: "parameters", "arguments" or "resized", to judge it alone, before the rest of engine.py is written.
    ValueError for another one.
    """
    if function not in ("", *PARTS):
        raise ValueError(f"function: must be one of {', '.join(PARTS)}, got {function!r}")
    try:
        modules = _modules(*MODULES[5])
        if function:
            _say(function, {PARTS[function](modules["engine"], modules["plan"]): ""})
            return
        flaws = {}
        for name, network in NETWORKS.items():
            found = judge_engine(_model(network), modules)[1]
            flaws[name] = found[0] if found else ""
    except Flaw as flaw:
        flaws = {"engine.py": str(flaw)}
    _say("engine", flaws)


def try_fusion() -> None:
    """Print the first flaw of this session's fusions with a hard-swish, or what they save, on a small network."""
    model = topology.write_onnx(*hard_swishes(1, (14, 19)))
    try:
        modules = _modules(*MODULES[5])
        passes, found = modules["plan"].PASSES, []
        kept = list(passes)
        for chosen in ([], kept):
            passes[:] = chosen
            try:
                scores, flaws = judge_engine(model, modules)
            finally:
                passes[:] = kept
            if flaws:
                raise Flaw(flaws[0])
            found.append(scores)
        apart, fused = found
        if left := unfused(model, modules):
            raise Flaw(f"right, and not yet what was asked: {left}")
    except Flaw as flaw:
        print(f"✗ own fusion: {flaw}")
        return
    print(
        f"✓ own fusion: right, {fused['launches']:.0f} launches in place of {apart['launches']:.0f},"
        f" {fused['bytes moved'] / 1e3:.0f} kB in place of {apart['bytes moved'] / 1e3:.0f}"
    )


def try_blocks() -> None:
    """Print the first flaw of this session's blocks.py, or what its blocks save, on a small network."""
    model = topology.write_onnx(*inverted_residuals(1, (19, 25)))
    try:
        found = []
        for chapter in (5, 6):
            scores, flaws = judge_engine(model, _modules(*MODULES[chapter]))
            if flaws:
                raise Flaw(flaws[0])
            found.append(scores)
        apart, fused = found
    except Flaw as flaw:
        print(f"✗ blocks: {flaw}")
        return
    print(
        f"✓ blocks: right, {fused['launches']:.0f} launches in place of {apart['launches']:.0f},"
        f" {fused['bytes moved'] / 1e3:.0f} kB in place of {apart['bytes moved'] / 1e3:.0f}"
    )


def _say(what: str, flaws: dict[str, str]) -> None:
    for name, flaw in flaws.items():
        if flaw:
            print(f"✗ {name}: {flaw}")
            return
    *others, last = flaws
    names = f"{', '.join(others)} and {last}" if others else last
    print(f"✓ {what}: right on {names}")
