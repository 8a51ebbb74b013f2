"""The ladders with a slot for a learner's own rung: what its kernel begins as, and how the ladder's rungs are launched.

A slot's kernel has the name and the signature of its operator (operators.py). In a learner's copy it begins as the
naive kernel of reference/rungs/<ladder>.cu.
"""

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import kernels
from .operators import OPERATORS, RELU6, Dims, Operator, window

NAIVE = Path(__file__).parent / "reference" / "rungs"

Call = Callable[[Mapping[str, Any], Dims, str], Any]


@dataclass(frozen=True)
class Slot:
    """A ladder's slot.

    operator   whose kernel the learner writes
    traced     dims of the launch that is traced, for the learner's rung and the ladder's
    call       (arrays by the operator's names, dims, variant) → launches a rung of the ladder
    """

    operator: Operator
    traced: dict[str, int]
    call: Call

    @property
    def ladder(self) -> str:
        """The ladder's name in common.kernels."""
        return self.operator.ladder or self.operator.name

    @property
    def naive(self) -> str:
        """The text that the slot holds to begin with."""
        return (NAIVE / f"{self.ladder}.cu").read_text(encoding="utf-8")


def _image(array: Any, dims: Dims, channels: str) -> Any:
    """An array (images, channels, area) as one of four dimensions."""
    return array.reshape(dims["images"], dims[channels], 1, dims["area"])


def _pool(a: Mapping[str, Any], d: Dims, variant: str) -> Any:
    return kernels.global_avg_pool(a["in"].reshape(1, d["channels"], 1, d["area"]), variant=variant)


def _conv(a: Mapping[str, Any], d: Dims, variant: str) -> Any:
    return kernels.conv2d(
        a["in"], a["weight"], a["bias"], d["stride"], d["padding"], activation=RELU6, variant=variant
    )  # fmt: skip


def _pointwise(a: Mapping[str, Any], d: Dims, variant: str) -> Any:
    weight = a["weight"].reshape(d["out_channels"], d["in_channels"], 1, 1)
    x, residual = _image(a["in"], d, "in_channels"), a.get("residual")
    residual = None if residual is None else _image(residual, d, "out_channels")
    return kernels.pointwise(x, weight, a["bias"], residual=residual, activation=RELU6, variant=variant)


def _filters(a: Mapping[str, Any], d: Dims) -> Any:
    return a["weight"].reshape(d["channels"], 1, d["kernel"], d["kernel"])


def _depthwise(a: Mapping[str, Any], d: Dims, variant: str) -> Any:
    return kernels.depthwise(
        a["in"], _filters(a, d), a["bias"], d["stride"], d["padding"], activation=RELU6, variant=variant
    )  # fmt: skip


def _backward_input(a: Mapping[str, Any], d: Dims, variant: str) -> Any:
    shape = tuple(d[name] for name in ("images", "channels", "height", "width"))
    return kernels.depthwise_backward_input(
        a["dout"], _filters(a, d), shape, d["stride"], d["padding"], variant=variant
    )  # fmt: skip


def _backward_weight(a: Mapping[str, Any], d: Dims, variant: str) -> Any:
    side = (d["kernel"], d["kernel"])
    return kernels.depthwise_backward_weight(a["dout"], a["in"], side, d["stride"], d["padding"], variant=variant)


_STEM = dict(
    images=1, in_channels=3, height=32, width=32, out_channels=32, out_height=16, out_width=16, kernel=3, stride=2,
    padding=1,
)  # fmt: skip
_SQUARE = dict(images=1, in_channels=8, height=14, width=14, out_channels=16)

SLOTS: dict[str, Slot] = {
    slot.ladder: slot
    for slot in (
        Slot(OPERATORS["add"], {"n": 24 * 28 * 28}, lambda a, d, v: kernels.add(a["a"], a["b"], variant=v)),
        Slot(OPERATORS["pool"], {"channels": 320, "area": 49}, _pool),
        Slot(
            OPERATORS["gemm"], {"M": 128, "N": 128, "K": 64},
            lambda a, d, v: kernels.gemm(a["a"], a["b"], a["bias"], transpose_b=True, variant=v),
        ),
        Slot(OPERATORS["conv"], _STEM, _conv),
        Slot(OPERATORS["pointwise"], {"images": 1, "in_channels": 96, "out_channels": 24, "area": 196}, _pointwise),
        Slot(OPERATORS["depthwise"], window(1, 32, 28, 28, 3, 1), _depthwise),
        Slot(OPERATORS["depthwise_backward_input"], window(1, 16, 28, 28, 3, 1), _backward_input),
        Slot(OPERATORS["depthwise_backward_weight"], window(2, 16, 28, 28, 3, 1), _backward_weight),
        Slot(
            OPERATORS["winograd"], _SQUARE,
            lambda a, d, v: kernels.winograd(a["in"], a["weight"], a["bias"], 1, activation=RELU6, variant=v),
        ),
    )
}  # fmt: skip


def slot(name: str) -> Slot:
    """The slot of a ladder, by the ladder's or the kernel's name. Raises ValueError, with similar names."""
    for one in SLOTS.values():
        if name in (one.ladder, one.operator.name):
            return one
    near = difflib.get_close_matches(name, SLOTS, n=1, cutoff=0.5)
    meant = f"did you mean {near[0]}?" if near else f"the ladders are {', '.join(SLOTS)}"
    raise ValueError(f"no ladder is called {name!r}: {meant}" if name else f"which ladder? {', '.join(SLOTS)}")
