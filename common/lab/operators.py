"""The operators whose kernels a learner writes: signature, meaning in float64, shapes to try.

OPERATORS lists them by the name of the kernel. Files of the engine are listed in engine_files.py, slots for a learner's
own rung in rungs.py. Kernels are extern "C" and take contiguous NCHW arrays of float32 that
start at multiples of 256 bytes and have fewer than 2³¹ elements.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
Dims = Mapping[str, int]
NONE, RELU6 = (-math.inf, math.inf), (0.0, 6.0)


@dataclass(frozen=True)
class Operator:
    """An operator and the kernel that a learner writes for it.

    name         of the kernel, and of its ladder in common.kernels unless `ladder` gives another
    meaning      in words
    arrays       {array: shape as a function of the dims}, in the kernel's order; the output among them
    output       the name of the output
    sizes        the integer parameters, in the kernel's order
    compute      (arrays in float64, dims, (low, high)) → the output
    terms        number of products or numbers that are summed per element; of several sums in a row the largest
    tried        dims that an exercise tries
    held_out     dims of the milestone
    timed        dims that are timed on a GPU, of MobileNetV2
    bounded      whether it takes `float low, float high` between arrays and sizes
    optional     the input that may be null
    products     all multiply-adds, where they are not `terms` per element of the output
    """

    name: str
    meaning: str
    arrays: dict[str, Callable[[Dims], tuple[int, ...]]]
    output: str
    sizes: tuple[str, ...]
    compute: Callable[[Arrays, Dims], np.ndarray]
    terms: Callable[[Dims], int]
    tried: tuple[dict[str, int], ...]
    held_out: tuple[dict[str, int], ...]
    timed: dict[str, int]
    bounded: bool = False
    optional: str = ""
    ladder: str = ""
    products: Callable[[Dims], int] | None = None

    @property
    def signature(self) -> str:
        """The kernel's declaration without parameter types: "add(a, b, out, n)"."""
        bounds = ["low", "high"] if self.bounded else []
        return f"{self.name}({', '.join([*self.arrays, *bounds, *self.sizes])})"

    @property
    def declaration(self) -> str:
        """The kernel's declaration in CUDA C++."""
        arrays = [f"{'' if name == self.output else 'const '}float* {name}" for name in self.arrays]
        bounds = ["float low", "float high"] if self.bounded else []
        return f"void {self.name}({', '.join([*arrays, *bounds, *(f'int {name}' for name in self.sizes)])})"

    def inputs(self, dims: Dims, random: np.random.Generator) -> Arrays:
        """Random float32 inputs; an optional one is absent in every other shape."""
        drawn = {}
        for name, shape in self.arrays.items():
            if name != self.output and not (name == self.optional and sum(dims.values()) % 2):
                drawn[name] = random.standard_normal(shape(dims)).astype(np.float32)
        return drawn

    def expected(self, inputs: Mapping[str, np.ndarray], dims: Dims, bounds: tuple[float, float] = NONE) -> np.ndarray:
        """The output in float64; NaN passes the bounds."""
        with np.errstate(invalid="ignore", over="ignore"):
            out = self.compute({name: array.astype(np.float64) for name, array in inputs.items()}, dims)
            low, high = bounds
            return np.where(out < low, low, np.where(out > high, high, out)) if self.bounded else out

    def arguments(
        self, inputs: Mapping[str, Any], out: Any, dims: Dims, bounds: tuple[float, float] = NONE
    ) -> list[Any]:
        """The kernel's arguments; an absent input is a null pointer."""
        arrays = [out if name == self.output else inputs.get(name) for name in self.arrays]
        extra = [np.float32(bounds[0]), np.float32(bounds[1])] if self.bounded else []
        return [*arrays, *extra, *(np.int32(dims[name]) for name in self.sizes)]

    def empty(self, dims: Dims) -> np.ndarray:
        """An output of NaN."""
        return np.full(self.arrays[self.output](dims), np.nan, np.float32)

    def dims_of(self, args: Iterable[Any]) -> dict[str, int]:
        """The dims among the arguments of a launch. TypeError if their number is wrong."""
        values, count = list(args), len(self.arrays) + 2 * self.bounded + len(self.sizes)
        if len(values) != count:
            raise TypeError(f"{self.signature} takes {count} arguments, got {len(values)}")
        return {name: int(value) for name, value in zip(self.sizes, values[-len(self.sizes) :], strict=True)}

    def bytes_moved(self, dims: Dims) -> int:
        """Bytes of all arrays, each moved once."""
        return 4 * sum(math.prod(shape(dims)) for shape in self.arrays.values())

    def multiply_adds(self, dims: Dims) -> int:
        """Multiply-adds, or additions of an operator without products."""
        if self.products is not None:
            return self.products(dims)
        return self.terms(dims) * math.prod(self.arrays[self.output](dims))


def worded(dims: Dims) -> str:
    """Dims in words: "n = 33", "M = 3, N = 5, K = 7"."""
    return ", ".join(f"{name} = {value}" for name, value in dims.items())


# ---- Meaning


def _padded(x: np.ndarray, padding: int) -> np.ndarray:
    return np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))


def _windows(x: np.ndarray, kernel: int, stride: int, padding: int) -> np.ndarray:
    """(N, C, oH, oW, kernel, kernel)."""
    views = np.lib.stride_tricks.sliding_window_view(_padded(x, padding), (kernel, kernel), (2, 3))
    return views[:, :, ::stride, ::stride]


def _conv(a: Arrays, d: Dims) -> np.ndarray:
    kernel, stride, padding = d.get("kernel", 3), d.get("stride", 1), d.get("padding", 1)
    out = np.einsum("nchwyx,ocyx->nohw", _windows(a["in"], kernel, stride, padding), a["weight"], optimize=True)
    return out + a["bias"][:, None, None]


def _columns(a: Arrays, d: Dims) -> np.ndarray:
    padded = np.pad(a["x"], ((0, 0), (0, 0), (d["pad"], d["pad"]), (d["pad"], d["pad"])))
    views = np.lib.stride_tricks.sliding_window_view(padded, (d["kH"], d["kW"]), (2, 3))
    views = views[:, :, :: d["stride"], :: d["stride"]]  # (N, C, oH, oW, kH, kW)
    return views.transpose(1, 4, 5, 0, 2, 3).reshape(d["C"] * d["kH"] * d["kW"], -1)


def _pointwise(a: Arrays, d: Dims) -> np.ndarray:
    out = np.einsum("oc,ncp->nop", a["weight"], a["in"]) + a["bias"][:, None]
    return out + a["residual"] if "residual" in a else out


def _depthwise(a: Arrays, d: Dims) -> np.ndarray:
    windows = _windows(a["in"], d["kernel"], d["stride"], d["padding"])
    return np.einsum("nchwyx,cyx->nchw", windows, a["weight"]) + a["bias"][:, None, None]


def _hard_swish(x: np.ndarray) -> np.ndarray:
    return x * np.clip(x / 6 + 0.5, 0, 1)


SLIPS = {  # of an inverted residual: usual mistakes in words, by the name that `inverted_residual` takes
    "border": "the depthwise convolution's padding is 0, not what expand makes of zeros, ReLU6 of expand_bias",
    "expand": "ReLU6 follows expand, with both bounds",
    "depthwise": "ReLU6 follows the depthwise convolution, with both bounds, before project sums over the channels",
    "project": "nothing follows project but the residual: no ReLU6",
    "residual": "where residual is 1, in is added to the output",
    "stride": "with stride 2, the windows of neighbouring outputs begin two pixels apart",
    "origin": "the window of an output begins one row and one column before its pixel, in the padding",
    "nan": "a NaN is lost: fminf and fmaxf give the number when the other argument is NaN. Compare and choose,"
    " `v < 0.0f ? 0.0f : v > 6.0f ? 6.0f : v`",
}


def inverted_residual(a: Arrays, d: Dims, slip: str = "") -> np.ndarray:
    """The output of an inverted residual from arrays in float64; slip: a key of SLIPS, to compute what it makes."""
    hidden = np.einsum("oc,nchw->nohw", a["expand"], a["in"]) + a["expand_bias"][:, None, None]
    hidden = hidden if slip == "expand" else np.clip(hidden, 0, 6)
    hidden = np.nan_to_num(hidden) if slip == "nan" else hidden
    padded = _padded(hidden, 1)
    if slip == "border":
        border = np.clip(a["expand_bias"], 0, 6)[:, None, None]
        padded = _padded(hidden - border, 1) + border
    if slip == "origin":
        padded = np.pad(padded[:, :, 1:, 1:], ((0, 0), (0, 0), (0, 1), (0, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    step = 1 if slip == "stride" else d["stride"]
    windows = windows[:, :, ::step, ::step][:, :, : d["out_height"], : d["out_width"]]
    dw = np.einsum("nchwyx,cyx->nchw", windows, a["depthwise"]) + a["depthwise_bias"][:, None, None]
    dw = dw if slip == "depthwise" else np.clip(dw, 0, 6)
    out = np.einsum("oc,nchw->nohw", a["project"], dw) + a["project_bias"][:, None, None]
    out = out + a["in"] if d["residual"] and slip != "residual" else out
    return np.clip(out, 0, 6) if slip == "project" else out


def _block_products(d: Dims) -> int:
    pixels = d["images"] * d["out_height"] * d["out_width"]
    expand = d["images"] * d["height"] * d["width"] * d["in_channels"] * d["hidden_channels"]
    return expand + pixels * d["hidden_channels"] * (9 + d["out_channels"])


def _backward_input(a: Arrays, d: Dims) -> np.ndarray:
    stride, padding = d["stride"], d["padding"]
    grown = np.zeros((d["images"], d["channels"], d["height"] + 2 * padding, d["width"] + 2 * padding))
    for y in range(d["kernel"]):
        for x in range(d["kernel"]):
            rows = slice(y, y + stride * d["out_height"], stride)
            cols = slice(x, x + stride * d["out_width"], stride)
            grown[:, :, rows, cols] += a["dout"] * a["weight"][:, y, x, None, None]
    return grown[:, :, padding : padding + d["height"], padding : padding + d["width"]]


def _backward_weight(a: Arrays, d: Dims) -> np.ndarray:
    return np.einsum("nchwyx,nchw->cyx", _windows(a["in"], d["kernel"], d["stride"], d["padding"]), a["dout"])


# ---- Shapes


def window(images: int, channels: int, height: int, width: int, kernel: int, stride: int) -> dict[str, int]:
    """Dims of a depthwise convolution with padding kernel // 2."""
    out = [(size + 2 * (kernel // 2) - kernel) // stride + 1 for size in (height, width)]
    return dict(
        images=images, channels=channels, height=height, width=width, out_height=out[0], out_width=out[1],
        kernel=kernel, stride=stride, padding=kernel // 2,
    )  # fmt: skip


def _dense(images: int, channels: int, size: tuple[int, int], out: int, kernel: int, stride: int) -> dict[str, int]:
    """Dims of a convolution, in the kernel's order."""
    dims = window(images, channels, *size, kernel, stride)
    order = {"images": images, "in_channels": channels, "height": size[0], "width": size[1], "out_channels": out}
    return order | {name: dims[name] for name in ("out_height", "out_width", "kernel", "stride", "padding")}


def _block(
    images: int, size: tuple[int, int], channels: tuple[int, int, int], stride: int = 1, residual: int = 0
) -> dict[str, int]:
    """Dims of an inverted residual, in the kernel's order. channels: of the input, hidden, of the output."""
    inside, hidden, out = channels
    out_size = [(one - 1) // stride + 1 for one in size]
    return dict(zip(_BLOCK, (images, inside, hidden, out, *size, *out_size, stride, residual), strict=True))


def _columned(
    images: int, channels: int, size: tuple[int, int], kernel: tuple[int, int], stride: int, pad: int
) -> dict[str, int]:
    """Dims of im2col, in the kernel's order."""
    out = [(one + 2 * pad - k) // stride + 1 for one, k in zip(size, kernel, strict=True)]
    sizes = (images, channels, *size, *out, *kernel, stride, pad)
    return dict(zip(("N", "C", "H", "W", "oH", "oW", "kH", "kW", "stride", "pad"), sizes, strict=True))


def _product(m: int, n: int, k: int) -> dict[str, int]:
    return {"M": m, "N": n, "K": k}


def _pixels(images: int, inside: int, out: int, area: int) -> dict[str, int]:
    return {"images": images, "in_channels": inside, "out_channels": out, "area": area}


def _square(images: int, inside: int, height: int, width: int, out: int) -> dict[str, int]:
    return {"images": images, "in_channels": inside, "height": height, "width": width, "out_channels": out}


def _plane(d: Dims, channels: str = "channels") -> tuple[int, ...]:
    return d["images"], d[channels], d["height"], d["width"]


def _out_plane(d: Dims, channels: str = "channels") -> tuple[int, ...]:
    return d["images"], d[channels], d["out_height"], d["out_width"]


def _filters(d: Dims) -> tuple[int, ...]:
    return d["channels"], d["kernel"], d["kernel"]


_WINDOW = ("height", "width", "out_height", "out_width", "kernel", "stride", "padding")
_BLOCK = (
    "images", "in_channels", "hidden_channels", "out_channels", "height", "width", "out_height", "out_width", "stride",
    "residual",
)  # fmt: skip
_DENSE = ("images", "in_channels", "height", "width", "out_channels", *_WINDOW[2:])

OPERATORS: dict[str, Operator] = {
    one.name: one
    for one in (
        Operator(
            "add", "out[i] = a[i] + b[i], i in [0, n)",
            dict.fromkeys(("a", "b", "out"), lambda d: (d["n"],)), "out", ("n",),
            lambda a, d: a["a"] + a["b"], lambda d: 1,
            ({"n": 1000}, {"n": 1}, {"n": 3}, {"n": 4}, {"n": 33}, {"n": 130}, {"n": 2049}),
            ({"n": 1}, {"n": 2}, {"n": 31}, {"n": 257}, {"n": 1009}, {"n": 24 * 14 * 14}),
            {"n": 32 * 24 * 56 * 56},
        ),
        Operator(
            "pool", "out[c] = the mean of in[c · area … c · area + area − 1], c in [0, channels)",
            {"in": lambda d: (d["channels"], d["area"]), "out": lambda d: (d["channels"],)}, "out",
            ("channels", "area"), lambda a, d: a["in"].mean(1), lambda d: d["area"],
            ({"channels": 33, "area": 49}, {"channels": 1, "area": 1}, {"channels": 7, "area": 5},
             {"channels": 3, "area": 64}, {"channels": 5, "area": 130}),
            ({"channels": 1, "area": 1}, {"channels": 1280, "area": 49}, {"channels": 13, "area": 31},
             {"channels": 2, "area": 1009}, {"channels": 257, "area": 16}),
            {"channels": 32 * 1280, "area": 49}, ladder="global_avg_pool",
        ),
        Operator(
            "gemm", "out (M, N) = a (M, K) · b (N, K) transposed + bias (N)",
            {"a": lambda d: (d["M"], d["K"]), "b": lambda d: (d["N"], d["K"]), "bias": lambda d: (d["N"],),
             "out": lambda d: (d["M"], d["N"])}, "out", ("M", "N", "K"),
            lambda a, d: a["a"] @ a["b"].T + a["bias"], lambda d: d["K"],
            (_product(64, 64, 32), _product(1, 1, 1), _product(33, 65, 17), _product(5, 70, 40), _product(70, 3, 33)),
            (_product(1, 1, 1), _product(1, 10, 1280), _product(67, 43, 29), _product(32, 101, 64),
             _product(129, 2, 7)),
            _product(256, 1000, 1280),
        ),
        Operator(
            "im2col", "columns (C · kH · kW, N · oH · oW): the numbers under each window of x, 0 in the padding",
            {"x": lambda d: (d["N"], d["C"], d["H"], d["W"]),
             "columns": lambda d: (d["C"] * d["kH"] * d["kW"], d["N"] * d["oH"] * d["oW"])},
            "columns", ("N", "C", "H", "W", "oH", "oW", "kH", "kW", "stride", "pad"), _columns, lambda d: 1,
            (_columned(1, 3, (5, 7), (2, 3), 1, 0), _columned(2, 2, (13, 11), (2, 3), 2, 3)), (),
            _columned(1, 3, (224, 224), (3, 3), 2, 1),
        ),
        Operator(
            "conv", "a convolution with a square kernel, groups = 1; then bias, then the bounds low and high",
            {"in": lambda d: _plane(d, "in_channels"),
             "weight": lambda d: (d["out_channels"], d["in_channels"], d["kernel"], d["kernel"]),
             "bias": lambda d: (d["out_channels"],), "out": lambda d: _out_plane(d, "out_channels")},
            "out", _DENSE, _conv, lambda d: d["in_channels"] * d["kernel"] ** 2,
            (_dense(2, 3, (9, 11), 33, 3, 2), _dense(1, 1, (1, 1), 1, 1, 1), _dense(1, 5, (7, 6), 4, 3, 1),
             _dense(1, 4, (10, 10), 3, 1, 2), _dense(3, 2, (5, 8), 7, 5, 1)),
            (_dense(1, 3, (32, 32), 16, 3, 2), _dense(2, 7, (13, 5), 11, 3, 1), _dense(1, 1, (1, 1), 1, 1, 1),
             _dense(1, 2, (17, 19), 3, 5, 2), _dense(3, 5, (4, 4), 37, 1, 1)),
            _dense(32, 3, (224, 224), 32, 3, 2), bounded=True, ladder="conv2d",
        ),
        Operator(
            "pointwise", "a 1×1 convolution; then bias, then residual unless it is null, then low and high",
            {"in": lambda d: (d["images"], d["in_channels"], d["area"]),
             "weight": lambda d: (d["out_channels"], d["in_channels"]), "bias": lambda d: (d["out_channels"],),
             "residual": lambda d: (d["images"], d["out_channels"], d["area"]),
             "out": lambda d: (d["images"], d["out_channels"], d["area"])},
            "out", ("images", "in_channels", "out_channels", "area"), _pointwise, lambda d: d["in_channels"],
            (_pixels(2, 24, 33, 49), _pixels(1, 1, 1, 1), _pixels(1, 17, 5, 70), _pixels(2, 3, 66, 5),
             _pixels(1, 33, 16, 64)),
            (_pixels(1, 96, 24, 49), _pixels(2, 13, 7, 31), _pixels(1, 1, 1, 1), _pixels(1, 16, 96, 36),
             _pixels(3, 5, 101, 9)),
            _pixels(32, 144, 24, 56 * 56), bounded=True, optional="residual",
        ),
        Operator(
            "depthwise", "a convolution with a square kernel, groups = channels; then bias, then low and high",
            {"in": _plane, "weight": _filters, "bias": lambda d: (d["channels"],), "out": _out_plane},
            "out", ("images", "channels", *_WINDOW), _depthwise, lambda d: d["kernel"] ** 2,
            (window(2, 5, 9, 11, 3, 1), window(1, 1, 1, 1, 3, 1), window(2, 3, 10, 7, 3, 2), window(1, 4, 12, 40, 5, 1),
             window(3, 2, 6, 6, 1, 1)),
            (window(1, 16, 28, 28, 3, 1), window(2, 7, 13, 5, 3, 2), window(1, 1, 1, 1, 3, 1),
             window(1, 3, 17, 19, 5, 2), window(1, 5, 7, 33, 3, 1)),
            window(32, 144, 56, 56, 3, 1), bounded=True,
        ),
        Operator(
            "depthwise_backward_input", "the gradient of the input of a depthwise convolution",
            {"dout": _out_plane, "weight": _filters, "din": _plane}, "din", ("images", "channels", *_WINDOW),
            _backward_input, lambda d: d["kernel"] ** 2,
            (window(2, 3, 9, 11, 3, 1), window(1, 1, 1, 1, 3, 1), window(2, 2, 10, 7, 3, 2)), (),
            window(32, 144, 56, 56, 3, 1),
        ),
        Operator(
            "depthwise_backward_weight", "the gradient of the weight of a depthwise convolution",
            {"in": _plane, "dout": _out_plane, "dweight": _filters}, "dweight", ("images", "channels", *_WINDOW),
            _backward_weight, lambda d: d["images"] * d["out_height"] * d["out_width"],
            (window(2, 3, 9, 11, 3, 1), window(1, 1, 1, 1, 3, 1), window(2, 2, 10, 7, 3, 2)), (),
            window(32, 144, 56, 56, 3, 1),
        ),
        Operator(
            "winograd", "a 3×3 convolution, stride 1, padding 1; then bias, then the bounds low and high",
            {"in": lambda d: _plane(d, "in_channels"), "weight": lambda d: (d["out_channels"], d["in_channels"], 3, 3),
             "bias": lambda d: (d["out_channels"],),
             "out": lambda d: (d["images"], d["out_channels"], d["height"], d["width"])},
            "out", ("images", "in_channels", "height", "width", "out_channels"), _conv,
            lambda d: 9 * d["in_channels"],
            (_square(1, 3, 8, 10, 5), _square(1, 1, 1, 1, 1), _square(2, 2, 7, 5, 3)), (),
            _square(32, 64, 56, 56, 64), bounded=True,
        ),
        Operator(
            "hard_swish", "out[i] = x[i] · clamp(x[i] / 6 + 1/2, 0, 1), i in [0, n); out may be x",
            dict.fromkeys(("x", "out"), lambda d: (d["n"],)), "out", ("n",),
            lambda a, d: _hard_swish(a["x"]), lambda d: 1,
            ({"n": 1000}, {"n": 1}, {"n": 33}, {"n": 257}, {"n": 2049}), (), {"n": 32 * 16 * 112 * 112},
        ),
        Operator(
            "conv_hard_swish", "a convolution with a square kernel, groups = 1; then bias, then the hard-swish",
            {"in": lambda d: _plane(d, "in_channels"),
             "weight": lambda d: (d["out_channels"], d["in_channels"], d["kernel"], d["kernel"]),
             "bias": lambda d: (d["out_channels"],), "out": lambda d: _out_plane(d, "out_channels")},
            "out", _DENSE, lambda a, d: _hard_swish(_conv(a, d)), lambda d: d["in_channels"] * d["kernel"] ** 2,
            (_dense(2, 3, (9, 11), 33, 3, 2), _dense(1, 1, (1, 1), 1, 1, 1), _dense(1, 17, (7, 10), 5, 1, 1),
             _dense(1, 4, (10, 10), 3, 1, 2), _dense(3, 2, (5, 8), 7, 5, 1)),
            (), _dense(32, 3, (224, 224), 16, 3, 2),
        ),
        Operator(
            "depthwise_hard_swish",
            "a convolution with a square kernel, groups = channels; then bias, then the hard-swish",
            {"in": _plane, "weight": _filters, "bias": lambda d: (d["channels"],), "out": _out_plane},
            "out", ("images", "channels", *_WINDOW), lambda a, d: _hard_swish(_depthwise(a, d)),
            lambda d: d["kernel"] ** 2,
            (window(2, 5, 9, 11, 3, 1), window(1, 1, 1, 1, 3, 1), window(2, 3, 10, 7, 3, 2), window(1, 4, 12, 40, 5, 1),
             window(3, 2, 6, 6, 1, 1)),
            (), window(32, 120, 28, 28, 5, 1),
        ),
        Operator(
            "block",
            "an inverted residual: expand (1×1), bias, ReLU6; depthwise (3×3, padding 1), bias, ReLU6; project (1×1),"
            " bias; then + in if residual is 1",
            {"in": lambda d: _plane(d, "in_channels"), "expand": lambda d: (d["hidden_channels"], d["in_channels"]),
             "expand_bias": lambda d: (d["hidden_channels"],), "depthwise": lambda d: (d["hidden_channels"], 3, 3),
             "depthwise_bias": lambda d: (d["hidden_channels"],),
             "project": lambda d: (d["out_channels"], d["hidden_channels"]),
             "project_bias": lambda d: (d["out_channels"],), "out": lambda d: _out_plane(d, "out_channels")},
            "out", _BLOCK, inverted_residual, lambda d: max(d["in_channels"], 9, d["hidden_channels"]),
            (_block(1, (16, 16), (8, 48, 8), 1, 1), _block(2, (7, 9), (5, 37, 7)), _block(1, (10, 13), (3, 20, 6), 2),
             _block(1, (1, 1), (1, 1, 1), 1, 1), _block(2, (5, 18), (4, 17, 4), 1, 1),
             _block(1, (9, 6), (6, 33, 40), 2), _block(1, (6, 11), (3, 18, 3), 1, 1)),
            (_block(1, (14, 14), (16, 96, 16), 1, 1), _block(2, (13, 7), (6, 35, 11)), _block(1, (1, 1), (1, 1, 1)),
             _block(1, (12, 19), (5, 30, 9), 2), _block(3, (3, 10), (7, 50, 7), 1, 1),
             _block(1, (8, 5), (4, 9, 70), 2)),
            _block(32, (56, 56), (24, 144, 24), 1, 1), products=_block_products,
        ),
    )
}  # fmt: skip
