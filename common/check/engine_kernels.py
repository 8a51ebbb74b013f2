"""Check a kernel of the learner's engine: on every shape of its operator, as its own first comment launches it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..cuda.report import Report
from ..lab import launch_lines
from ..lab.operators import NONE, OPERATORS, RELU6, SLIPS, Arrays, Dims, Operator, inverted_residual, worded
from .answers import Wrong
from .kernels import compare, launch, sprinkled, target
from .trials import numpy_random

_NAN_HIDDEN = (
    "fminf and fmaxf give the number when the other argument is NaN, so the NaN is lost: compare and choose,"
    " `sum < low ? low : sum > high ? high : sum`"
)


@dataclass(frozen=True)
class Traced:
    """A traced launch of the answer, whose results are right.

    what      the launch in words
    dims      the integer parameters by name
    report    of the trace
    size      blocks, threads per block, shared memory
    """

    what: str
    dims: dict[str, int]
    report: Report
    size: launch_lines.Size


def check_kernel(
    source: str, name: str, hints: Mapping[str, str] | None = None, more: Sequence[Dims] = (), also: str = ""
) -> list[Traced]:
    """Launch a kernel on every shape that its operator tries; return the traces, in the order of Operator.tried.

    Raises Wrong unless each launch is free of findings and near the results in float64.

    name     of the operator and kernel (common.lab.operators)
    hints    as in `launch`
    more     further shapes, after those of Operator.tried
    also     a sentence after the hint for wrong elements
    """
    operator, random = OPERATORS[name], numpy_random()
    traces = []
    for number, dims in enumerate((*operator.tried, *map(dict, more))):
        inputs = operator.inputs(dims, random)
        bounds = RELU6 if operator.bounded and number % 2 == 0 else NONE
        what = f"{name} with {worded(dims)}"
        if number == len(operator.tried) - 1:
            first = next(iter(inputs))
            inputs[first] = sprinkled(random, inputs[first])
            what += ", NaN and infinities among the inputs"
            if name.endswith("hard_swish"):  # of −∞ it is 0, or by its formula, as in PyTorch, NaN: both are right
                inputs[first] = np.where(np.isinf(inputs[first]), np.float32(100), inputs[first])
                what = what.replace("NaN and infinities", "NaN")
        out = operator.empty(dims)
        args = operator.arguments(inputs, out, dims, bounds)
        size = launch_size(source, dims)
        shared = size.shared
        report = launch(
            source, name, size.grid, size.block, args, what=what, outputs=(out,), shared_mem=shared, hints=hints
        )
        want = operator.expected(inputs, dims, bounds)
        rtol = 0.0 if name == "add" else 4e-6 * operator.terms(dims) ** 0.5
        hint = ". ".join(part for part in (f"{operator.signature}: {operator.meaning}", also) if part)
        compare(
            out, want, what=f"{what}: {operator.output}", hint=hint,
            mistakes=_mistakes(operator, inputs, dims, bounds, want), rtol=rtol, atol=rtol,
        )  # fmt: skip
        traces.append(Traced(what, dims, report, size))
    return traces


def loaded_once(traced: Traced, name: str, reuse: int = 8) -> None:
    """Ask that a product's numbers serve `reuse` multiply-adds each time that they are loaded from global memory.

    name: of the operator. Raises Wrong, "right, and not yet what was asked", for more loads.
    """
    target(
        traced.report.global_loads.accesses,
        2 * OPERATORS[name].multiply_adds(traced.dims) // reuse,
        "numbers loaded from global memory",
        what=traced.what,
        hint="stage a tile of both matrices in shared memory, so that each number loaded is used many times",
        picture=traced.report,
    )


def launch_size(source: str, dims: Mapping[str, int]) -> launch_lines.Size:
    """The size of the launch that the file's first comment asks for. Raises Wrong for a file without one."""
    try:
        return launch_lines.size(source, dims)
    except launch_lines.LaunchError as error:
        raise Wrong(str(error), "the first comment of the file says how many blocks and threads it needs") from None


def _mistakes(
    operator: Operator, inputs: Arrays, dims: Mapping[str, int], bounds: tuple[float, float], want: np.ndarray
) -> Iterator[tuple[np.ndarray, str]]:
    """(result, hint) of mistakes that every kernel can make."""
    for absent in ("bias", "residual"):
        if absent in inputs:
            without = {**inputs, absent: np.zeros_like(inputs[absent])}
            yield operator.expected(without, dims, bounds), f"{absent} is not added"
    if "residual" in inputs and bounds != NONE:
        before = {**inputs, "residual": np.zeros_like(inputs["residual"])}
        late = operator.expected(before, dims, bounds) + inputs["residual"].astype(np.float64)
        yield late, "low and high bound the whole sum, residual included: add the residual before them"
    if want.ndim == 4 and want.shape[0] > 1:
        hint = f"{operator.output} is (image, channel, pixel): all channels of an image lie before the next image"
        yield np.swapaxes(want, 0, 1).reshape(want.shape), hint
    if bounds != NONE:
        yield operator.expected(inputs, dims), "the bounds low and high are not applied"
    if operator.name.endswith("_hard_swish"):
        plain = OPERATORS[operator.name.removesuffix("_hard_swish")].expected(inputs, dims)
        yield plain, "the hard-swish is not applied"
        yield np.clip(plain / 6 + 0.5, 0, 1), "this is the gate alone: the hard-swish is the sum times the gate"
        yield (
            plain * np.maximum(plain / 6 + 0.5, 0),
            "from 3 on the hard-swish is the sum itself: the gate is at most 1",
        )
        yield plain * np.minimum(plain / 6 + 0.5, 1), "up to −3 the hard-swish is 0: the gate is at least 0"
        yield np.nan_to_num(want), "a NaN is lost: a comparison with NaN is false, so a branch may store 0"
    if operator.name == "block":
        exact = {name: array.astype(np.float64) for name, array in inputs.items()}
        with np.errstate(invalid="ignore", over="ignore"):
            yield from [(inverted_residual(exact, dims, slip), words) for slip, words in SLIPS.items()]
    if operator.name == "depthwise":
        yield from _depthwise_mistakes(operator, inputs, dims, bounds)
    if operator.bounded and np.isnan(want).any():
        for bound in bounds:
            yield np.where(np.isnan(want), bound, want), _NAN_HIDDEN


def _depthwise_mistakes(
    operator: Operator, inputs: Arrays, dims: Mapping[str, int], bounds: tuple[float, float]
) -> Iterator[tuple[np.ndarray, str]]:
    weight, padding = inputs["weight"], dims["padding"]
    first = {**inputs, "weight": np.broadcast_to(weight[:1], weight.shape)}
    yield (
        operator.expected(first, dims, bounds),
        "plane 1 is the first wrong one: which weights does it need? Each channel has kernel * kernel of its own",
    )
    ends = (padding, 3 * padding)  # so that padding + row of the input is read, not row - padding
    moved = np.pad(inputs["in"], ((0, 0), (0, 0), ends, ends))[:, :, 2 * padding :, 2 * padding :]
    yield (
        operator.expected({**inputs, "in": moved}, {**dims, "padding": 0}, bounds),
        "the padding has the wrong sign: the first output begins in the padding, at row -padding and column -padding",
    )
