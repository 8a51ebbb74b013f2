"""A compiled network in a file: plans for some input shapes with the prepared weights, as TensorRT's engine files.

    net.save("mobilenetv2.plan")
    net = Network.load("mobilenetv2.plan")        without the ONNX file, passes and searches

The file is an uncompressed zip archive, which numpy.load reads as well: plan.json, and one .npy array per parameter. It
holds data only; loading runs no code from it. Kernels are not in it: they are compiled when they are first launched,
and cached, as those of any network. It is valid for one version of the course, on one kind of card:

    always                         the same version, the same device (GPU or simulator), the same compute capability
    steps of further fusions       the card of the same name as well, because tiles are chosen for a card
"""

import json
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from .. import __version__, cuda
from ..files import open_regular, replacing
from ..measure import environment
from ..text import printable
from ..topology.graph import Graph, Signature
from ..weights.files import EPOCH, MAX_BYTES, check_suffix, read_array
from . import registry
from .backends import COMPOSITIONS, Kernels, composition
from .encoding import NotLoaded, decoded, encoded
from .program import DTYPES, CompiledPlan, CompiledPlans
from .registry import Step

SUFFIX = ".plan"
FORMAT = "compiled network, version 3"
HEADER = "plan.json"


# ---- Writing


def write(path: str | os.PathLike, target: Any, plans: CompiledPlans) -> None:
    """Write plans of the backend `target`, a Kernels, to a file that `read` reads; see Network.save for the errors."""
    check_suffix(path, SUFFIX)
    graphs = [plan.graph for plan in plans.plans.values()]
    try:
        content = {
            "format": FORMAT,
            "course": __version__,
            **_machine(plans.plans.values()),
            "backend": target.name,
            "options": _options(target),
            "entries": _entries(graphs),
            "plans": [
                {
                    "graph": _encoded(plan.graph),
                    "workspaces": dict(plan.workspaces or {}),
                    "offsets": dict(plan.offsets),
                }
                for plan in plans.plans.values()
            ],
            "parameters": [{"name": name, "shape": shape} for name, (_, shape) in plans.parameters.items()],
        }
    except (TypeError, ValueError, NameError) as error:  # NameError: of the annotations of a class in a function
        raise ValueError(f"{os.fspath(path)}: {error}") from None
    arrays = [elements for elements, _ in plans.parameters.values()]
    text = json.dumps(content, ensure_ascii=False, allow_nan=False).encode()
    if (total := len(text) + sum(array.nbytes + 128 for array in arrays)) > MAX_BYTES:  # 128: an array's header
        raise ValueError(f"{path}: the network must have at most {MAX_BYTES} bytes, got {total}")
    with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr(zipfile.ZipInfo(HEADER, EPOCH), text)
        for i, array in enumerate(arrays):
            with archive.open(zipfile.ZipInfo(f"{i}.npy", EPOCH), "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, array.astype(array.dtype.newbyteorder("<")), allow_pickle=False)


def _encoded(graph: Graph) -> Any:
    value = encoded(graph)
    if encoded(decoded(Graph, value)) != value:
        raise ValueError(f"the plan of {graph.name!r} would not be the same after loading")
    return value


def _options(target: Kernels) -> dict[str, Any]:
    """The options of Kernels; of functions only the operators that they replace."""
    optimize = target.optimize and target.optimize.name
    if optimize is not None and (optimize not in COMPOSITIONS or composition(optimize) != target.optimize):
        raise ValueError(f"optimize must be {', '.join(COMPOSITIONS)} or None to be saved, got {target.optimize!r}")
    return {
        "dtype": target.dtype, "layout": target.layout, "optimize": optimize,
        "variants": dict(target.variants or {}), "operators": sorted(target.operators or ()),
        "arithmetic": target.arithmetic, "input_bound": target.input_bound,
    }  # fmt: skip


def _machine(plans: Iterable[CompiledPlan]) -> dict[str, Any]:
    """What plans depend on besides the course. card: None if no step was made by a fusion other than the default's."""
    return {
        "device": cuda.backend(),
        "compute capability": cuda.compute_capability(),
        "card": _card() if any(plan.for_one_batch for plan in plans) else None,
    }


def _card() -> str:
    return environment.card() if cuda.backend() == "gpu" else "the simulator"


def _steps(graph: Graph) -> Iterator[Step]:
    for layer in graph.layers:
        if isinstance(layer, Step):
            yield layer


def _entries(graphs: Iterable[Graph]) -> list[dict[str, str]]:
    """The registered operators and fusions that run the steps, with their modules."""
    found: dict[tuple[str, str], str] = {}
    for graph in graphs:
        for step in _steps(graph):
            for layer in step.layers:
                found["operator", type(layer).__name__] = type(registry.OPERATORS[type(layer)]).__module__
            if step.fusion:
                found["fusion", step.fusion.name] = type(step.fusion).__module__
    return [{"kind": kind, "name": name, "module": module} for (kind, name), module in found.items()]


# ---- Reading


def read(
    path: str | os.PathLike, operators: Mapping[str, Callable[..., Any]] | None = None
) -> tuple[Kernels, CompiledPlans]:
    """(backend, plans) of a file that `write` wrote, checked; see Network.load for arguments and errors."""
    check_suffix(path, SUFFIX)
    where = os.fspath(path)
    with open_regular(path) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                entries = {entry.filename: entry for entry in archive.infolist()}
                if (total := sum(entry.file_size for entry in entries.values())) > MAX_BYTES:
                    raise Refused(f"expected at most {MAX_BYTES} bytes, got {total}")
                content = json.loads(archive.read(HEADER))
                _check(content)
                target = _target(content["options"], operators)
                plans = dict(map(_plan, content["plans"]))
                if len(entries) != 1 + len(content["parameters"]):
                    raise ValueError(f"{len(entries) - 1} arrays for {len(content['parameters'])} parameters")
                parameters = {
                    one["name"]: _parameter(read_array(archive, entries[f"{i}.npy"]), one, target)
                    for i, one in enumerate(content["parameters"])
                }
                _check_parameters([plan.graph for plan in plans.values()], parameters)
        except (Refused, NotLoaded) as error:
            raise ValueError(printable(f"{where}: {error}", 1000)) from None
        except Exception as error:  # BadZipFile, KeyError, JSONDecodeError, RecursionError, TypeError of a field, …
            reason = str(error) or type(error).__name__
            raise ValueError(
                printable(f"{where}: expected a network saved by Network.save, got a damaged file ({reason})", 1000)
            ) from error
    return target, CompiledPlans(plans, parameters)


class Refused(ValueError):
    """A file in order that is not for this course, this card or this call."""


def _check(content: dict[str, Any]) -> None:
    """Raise Refused unless format, version, backend and machine are those here, NotLoaded for a missing entry."""
    for what, known in (("format", FORMAT), ("course", __version__), ("backend", Kernels.name)):
        if content[what] != known:
            raise Refused(f"expected {what} {known!r}, got {content[what]!r}; save it again: Network(model).save")
    here = {"device": cuda.backend(), "compute capability": cuda.compute_capability(), "card": _card()}
    for what, expected in here.items():
        if content[what] != expected and not (what == "card" and content[what] is None):
            raise Refused(
                f"expected {what} {expected!r}, which is here, got {content[what]!r}, which it was compiled for;"
                " compile it here: Network(model).save"
            )
    for entry in content["entries"]:
        kind, name, module = (entry[key] for key in ("kind", "name", "module"))
        operators = {layer.__name__: operator for layer, operator in registry.OPERATORS.items()}
        entries: Any = {"operator": operators, "fusion": registry.FUSIONS}[kind]
        if type(entries.get(name)).__module__ != module:
            raise NotLoaded(f"the {kind} {name!r}", module)


def _target(options: dict[str, Any], operators: Mapping[str, Callable[..., Any]] | None) -> Kernels:
    given = sorted(operators or ())
    if given != options["operators"]:
        raise Refused(
            f"operators: expected functions for {', '.join(options['operators']) or 'nothing'}, with which it was"
            f" saved, got them for {', '.join(given) or 'nothing'}"
        )
    if options["optimize"] not in (None, *COMPOSITIONS):
        raise ValueError(f"optimize {options['optimize']!r}")
    return Kernels(**options | {"operators": operators})


def _plan(content: dict[str, Any]) -> tuple[Signature, CompiledPlan]:
    graph = decoded(Graph, content["graph"])
    workspaces, offsets = (decoded(dict[str, int], {"map": content[name]}) for name in ("workspaces", "offsets"))
    return graph.signature, CompiledPlan(graph, workspaces, offsets)


def _parameter(elements: np.ndarray, content: dict[str, Any], target: Kernels) -> tuple[np.ndarray, tuple[int, ...]]:
    shape = decoded(tuple[int, ...], content["shape"])
    if elements.dtype != DTYPES[target.dtype] or elements.shape != (int(np.prod(shape)),):
        raise ValueError(
            f"parameter {content['name']!r} must be of {shape} {target.dtype}, got {elements.shape} {elements.dtype}"
        )
    return elements, shape


def _check_parameters(graphs: Iterable[Graph], parameters: Mapping[str, tuple[Any, tuple[int, ...]]]) -> None:
    for graph in graphs:
        for name, shape in graph.parameter_shapes.items():
            if name not in parameters or parameters[name][1] != shape:
                raise ValueError(f"parameter {name!r} must be of shape {shape}")
