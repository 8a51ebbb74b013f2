"""Execution plans for a cuDNN graph: listing them, choosing one, searching for the fastest.

An execution plan is one of cuDNN's engines with its settings. `first` returns the one that cuDNN's heuristics rank
first; `fastest` times all or the first few on random data and caches the winner's name in memory and on disk.
"""

import hashlib
import json
import math
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import cuda
from ..files import replacing
from . import blas, library
from .graphs import Graph, Node

ALIGNMENT = 256  # bytes, of arrays in scratch memory
WORKSPACE_LIMIT = 4 << 30  # bytes; plans that need more are skipped
MOST_ELEMENTWISE = 2  # plans timed for a graph without a convolution, unless all are: they differ little
HOPELESS = 4.0  # a plan this many times slower than the best so far is not timed further


class Unsupported(RuntimeError):
    """cuDNN has no plan for a graph."""


@dataclass
class EnginePlan:
    """An execution plan: a graph with the cuDNN engine that runs it.

    name        cuDNN's name of the engine and its settings: "eng4_k24=19"
    workspace   bytes of scratch memory
    index       of the plan in `lowered`, the front end's graph
    uids        cuDNN's tensor numbers by name
    """

    graph: Graph
    name: str
    workspace: int
    index: int
    lowered: Any
    uids: dict[str, int]

    def launch(self, pointers: dict[str, int], workspace: int) -> None:
        """Enqueues it on CuPy's current stream. pointers: each tensor's address by name; workspace: an address."""
        pack = {uid: pointers[name] for name, uid in self.uids.items()}
        self.lowered.execute_plan_at_index(pack, workspace, self.index, handle=library.handle())

    def __str__(self) -> str:
        needs = f", workspace {self.workspace / 1e6:.1f} MB" if self.workspace else ""
        return f"{self.graph.spelling}: {self.name}{needs}"


Plan = EnginePlan | blas.BlasPlan


@dataclass
class Composition:
    """One plan or two consecutive plans, with an array between them, that compute an operator."""

    plans: tuple[Plan, ...]

    @property
    def between(self) -> int:
        """Bytes of the array between the two plans; 0 for one plan."""
        return self.plans[0].graph.output.nbytes if len(self.plans) > 1 else 0

    @property
    def scratch(self) -> int:
        """Bytes of scratch memory that a launch needs."""
        return _aligned(self.between) + max(plan.workspace for plan in self.plans)

    def launch(self, pointers: dict[str, int], scratch: int) -> None:
        """Enqueues it on CuPy's current stream. pointers: the arrays' addresses by name; scratch: an address."""
        workspace = scratch + _aligned(self.between)
        for plan in self.plans:
            plan.launch(pointers | {"between": scratch}, workspace)

    def __str__(self) -> str:
        return " | ".join(map(str, self.plans))


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


# ---- Asking cuDNN


def lower(graph: Graph) -> tuple[Any, dict[str, int]]:
    """(the front end's graph with its supported plans, tensor uids by name).

    Plans of another arithmetic are deselected. Raises Unsupported if cuDNN has no plan.
    """
    frontend = library.require()
    types, notes = frontend.data_type, frontend.numerical_note
    io = {"fp32": types.FLOAT, "fp16": types.HALF}
    lowered = frontend.pygraph(
        io_data_type=io[graph.output.dtype], intermediate_data_type=types.FLOAT, compute_data_type=types.FLOAT,
        handle=library.handle(),
    )  # fmt: skip
    tensors = {
        t.name: lowered.tensor(name=t.name, dim=list(t.shape), stride=list(t.strides), data_type=io[t.dtype])
        for t in graph.tensors
    }
    value = tensors[graph.tensors[0].name]
    for node in graph.nodes:
        value = _lower_node(lowered, node, value, tensors)
    out = graph.output
    value.set_output(True).set_data_type(io[out.dtype]).set_dim(list(out.shape)).set_stride(list(out.strides))
    try:
        lowered.validate()
        lowered.build_operation_graph()
        modes = frontend.heur_mode
        lowered.create_execution_plans([modes.A, modes.B, modes.FALLBACK])
        if graph.heavy and graph.arithmetic == "fp32":
            lowered.deselect_numeric_notes(
                [notes.TENSOR_CORE, notes.DOWN_CONVERT_INPUTS, notes.REDUCED_PRECISION_REDUCTION]
            )
        elif graph.heavy and graph.arithmetic == "fp16":
            lowered.deselect_numeric_notes([notes.REDUCED_PRECISION_REDUCTION])
        elif graph.heavy and graph.arithmetic == "tf32" and _dense(graph):
            lowered.select_numeric_notes([notes.TENSOR_CORE])
        lowered.check_support()
    except Exception as error:  # the front end's exceptions have no common base class
        raise Unsupported(f"cuDNN has no plan for\n{graph}\n{str(error).splitlines()[0]}") from None
    tensors[out.name] = value
    return lowered, {name: tensor.get_uid() for name, tensor in tensors.items()}


def _dense(graph: Graph) -> bool:
    """Whether the convolution is ungrouped, as tensor cores require; "tf32" leaves grouped ones in fp32."""
    by_name = {tensor.name.removeprefix("d"): tensor for tensor in (*graph.tensors, graph.output)}
    return by_name["x"].shape[1] == by_name["w"].shape[1]


def _lower_node(lowered: Any, node: Node, value: Any, tensors: dict[str, Any]) -> Any:
    attributes = dict(node.attributes)
    operand = tensors[node.operand] if node.operand else None
    window = {key: list(attributes[key]) for key in ("padding", "stride", "dilation") if key in attributes}
    if node.op == "conv_fprop":
        return lowered.conv_fprop(image=value, weight=operand, **window)
    if node.op == "conv_dgrad":
        return lowered.conv_dgrad(loss=value, filter=operand, **window)
    if node.op == "conv_wgrad":
        return lowered.conv_wgrad(image=value, loss=operand, **window)
    if node.op == "identity":
        return lowered.identity(value)
    if node.op == "add":
        return lowered.add(value, operand)
    low, high = attributes["low"], attributes["high"]
    if (low, high) == (0.0, math.inf):
        return lowered.relu(value)
    largest = float(np.finfo(np.float32).max)
    return lowered.relu(value, lower_clip=max(float(low), -largest), upper_clip=min(float(high), largest))


def plans(graph: Graph, most: int | None = None) -> Iterator[Plan]:
    """The first `most` (default: all) of cuDNN's plans in its order, then cuBLAS's plan if there is one.

    Raises Unsupported if there is no plan.
    """
    lowered, uids = lower(graph)
    found = 0
    product = blas.plan_of(graph)
    for index in range(lowered.get_execution_plan_count()):
        if found == most:
            break
        try:
            lowered.build_plan_at_index(index)
        except Exception:
            continue  # deselected, or not supported for this shape
        workspace = lowered.get_workspace_size_plan_at_index(index)
        if workspace > WORKSPACE_LIMIT:
            continue
        found += 1
        yield EnginePlan(graph, lowered.get_plan_name_at_index(index), workspace, index, lowered, uids)
    if product is not None and most != 1:
        yield product
    elif not found:
        raise Unsupported(f"cuDNN has no plan in {graph.arithmetic} for\n{graph}")


# ---- Choosing

_lock = threading.RLock()
_first: dict[Graph, Plan | None] = {}
_fastest: dict[Graph, tuple[Plan, float] | None] = {}
_chosen: dict[tuple[tuple[Graph, ...], ...], Composition] = {}
_tuned: dict[tuple[tuple[Graph, ...], ...], Composition] = {}


def clear() -> None:
    """Clear the plans cached in this process; the cache on disk remains."""
    with _lock:
        for cache in (_first, _fastest, _chosen, _tuned):
            cache.clear()


def choose(compositions: Sequence[tuple[Graph, ...]], tune: bool | int = False) -> Composition:
    """Choose plans for one of the alternative `compositions` of an operator; the choice is cached.

    tune: False uses the first alternative that cuDNN supports, with the plan that its heuristics rank first; True times
    every plan of every alternative; a number limits the plans timed per convolution graph. A tuned choice stays in
    effect for later calls without `tune`. Raises Unsupported if cuDNN supports no alternative.
    """
    key = tuple(compositions)
    with _lock:
        if key in _tuned:
            return _tuned[key]
        if not tune:
            if key not in _chosen:
                _chosen[key] = _first_supported(key)
            return _chosen[key]
        most = None if tune is True else int(tune)
        timed = []
        for graphs in key:
            best = [fastest(graph, most) for graph in graphs]
            found = [b for b in best if b is not None]
            if len(found) == len(graphs):
                timed.append((sum(us for _, us in found), Composition(tuple(plan for plan, _ in found))))
        if not timed:
            raise Unsupported(f"cuDNN has no plan for\n{key[0][0]}")
        _tuned[key] = min(timed, key=lambda pair: pair[0])[1]
        return _tuned[key]


def _first_supported(key: tuple[tuple[Graph, ...], ...]) -> Composition:
    for graphs in key:
        found = [first(graph) for graph in graphs]
        if all(found):
            return Composition(tuple(plan for plan in found if plan))
    raise Unsupported(f"cuDNN has no plan for\n{key[0][0]}")


def first(graph: Graph) -> Plan | None:
    """The plan that cuDNN's heuristics rank first; None if there is no plan."""
    with _lock:
        if graph not in _first:
            try:
                _first[graph] = next(plans(graph, 1))
            except Unsupported:
                _first[graph] = None
        return _first[graph]


def fastest(graph: Graph, most: int | None = None) -> tuple[Plan, float] | None:
    """(fastest plan, its time in µs on random data); None if there is no plan. most: number of plans to time."""
    with _lock:
        if most is not None and not graph.heavy:
            most = min(most, MOST_ELEMENTWISE)
        if graph not in _fastest:
            _fastest[graph] = _remembered(graph, most) or _search(graph, most)
        return _fastest[graph]


def timed(graph: Graph, most: int | None = None) -> list[tuple[Plan, float, float]]:
    """(plan, time in µs, workspace in bytes) of every plan of a graph that runs, fastest first.

    most: number of plans to time. Raises Unsupported if there is no plan.
    """
    found = []
    with _Trial(graph) as trial:
        for plan in plans(graph, most):
            us = trial.time(plan)
            if us is not None:
                found.append((plan, us, float(plan.workspace)))
    return sorted(found, key=lambda entry: entry[1])


def _search(graph: Graph, most: int | None) -> tuple[Plan, float] | None:
    try:
        with _Trial(graph) as trial:
            best: tuple[Plan, float] | None = None
            for plan in plans(graph, most):
                us = trial.time(plan, best[1] if best else None)
                if us is not None and (best is None or us < best[1]):
                    best = plan, us
    except Unsupported:
        return None
    if best is not None:
        _remember(graph, best[0].name, best[1], most)
    return best


class _Trial:
    """Random arrays for a graph and a stream of its own to time its plans on.

    It replaces measure.timing, which is too slow for thousands of plans, of which only the order matters.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def __enter__(self) -> "_Trial":
        import cupy

        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.arrays = {}
        with self.stream:
            for tensor in (*self.graph.tensors, self.graph.output):
                values = cupy.random.standard_normal(math.prod(tensor.shape), dtype=np.float32)
                self.arrays[tensor.name] = values.astype(np.float16 if tensor.dtype == "fp16" else np.float32)
            self.stream.synchronize()
        return self

    def __exit__(self, *error: Any) -> None:
        self.stream.synchronize()
        self.arrays.clear()

    def time(self, plan: Plan, best: float | None = None) -> float | None:
        """µs per launch; None if the plan does not run or is HOPELESS times slower than `best` (µs)."""
        import cupy

        pointers = {name: array.data.ptr for name, array in self.arrays.items()}
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        try:
            with self.stream:
                workspace = cupy.empty(max(1, plan.workspace), np.uint8)
                once = []
                for _ in range(2):  # the first pays for loading the kernel
                    start.record()
                    plan.launch(pointers, workspace.data.ptr)
                    end.record()
                    end.synchronize()
                    once.append(1e3 * cupy.cuda.get_elapsed_time(start, end))
                if best is not None and once[1] > HOPELESS * best + 50:  # 50 µs: what launching costs the processor
                    return None
                n = max(1, min(20, round(2000 / max(once[1], 1))))
                graph = self._captured(plan, pointers, workspace, n)
                graph.launch(self.stream)
                samples = []
                for _ in range(7):
                    start.record()
                    graph.launch(self.stream)
                    end.record()
                    end.synchronize()
                    samples.append(1e3 * cupy.cuda.get_elapsed_time(start, end) / n)
        except Exception:  # of CUDA, CuPy or cuDNN: the plan does not run here
            return None
        return float(np.median(samples))

    def _captured(self, plan: Plan, pointers: dict[str, int], workspace: Any, n: int) -> Any:
        self.stream.begin_capture()
        try:
            for _ in range(n):
                plan.launch(pointers, workspace.data.ptr)
        finally:
            graph = self.stream.end_capture()
        return graph


# ---- The cache on disk


def _file() -> Path:
    """The file of tuned plans for this card and this version of cuDNN."""
    import cupy

    card = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    name = f"cudnn-{library.versions()['cudnn']}-{'-'.join(card.lower().split())}.json"
    return cuda.cache_dir() / name


def _key(graph: Graph) -> str:
    return hashlib.sha256(repr(graph).encode()).hexdigest()[:24]


def _read() -> dict[str, Any]:
    try:
        content = json.loads(_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _remember(graph: Graph, name: str, us: float, most: int | None) -> None:
    path = _file()
    content = _read() | {_key(graph): {"graph": graph.spelling, "plan": name, "us": us, "of": most}}
    with replacing(path, "w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)


def _remembered(graph: Graph, most: int | None) -> tuple[Plan, float] | None:
    """The cached result of a search over at least as many plans, rebuilt; None if there is none or it is obsolete."""
    entry = _read().get(_key(graph))
    if not isinstance(entry, dict) or not entry.get("plan"):
        return None
    if entry.get("of") is not None and (most is None or most > entry["of"]):
        return None
    try:
        if entry["plan"] == blas.BlasPlan.name:
            product = blas.plan_of(graph)
            return None if product is None else (product, float(entry["us"]))
        lowered, uids = lower(graph)
        for index in range(lowered.get_execution_plan_count()):
            if lowered.get_plan_name_at_index(index) == entry["plan"]:
                lowered.build_plan_at_index(index)
                workspace = lowered.get_workspace_size_plan_at_index(index)
                return EnginePlan(graph, entry["plan"], workspace, index, lowered, uids), float(entry["us"])
    except Exception:  # an obsolete entry: search again
        return None
    return None
