import math

import numpy as np

from common import cuda, weights
from common.check import ToDo, Wrong, expect, require
from common.check.trials import numpy_random
from common.network import Network

SOURCE = """
extern "C" __global__ void channel_mean(const scalar_t* x, scalar_t* out, int channels, int pixels) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= channels) return;
    float sum = 0.0f;
    for (int p = 0; p < pixels; ++p) sum += (float)x[i * pixels + p];
    out[i] = (scalar_t)(sum / pixels);
}
"""
DTYPES = {"float32": np.float32, "float16": np.float16}
# N, C, H, W: one block in part, just one, one and a bit, several pictures, one pixel
SHAPES = ((1, 7, 3, 5), (1, 128, 2, 2), (1, 129, 3, 3), (3, 50, 4, 7), (2, 320, 1, 1), (5, 1, 7, 7))


class Noted:
    """A kernel that is launched, and how."""

    def __init__(self, name):
        text = {"float32": "float", "float16": "__half"}[name]
        self.name, self.calls = name, []
        head = "#include <cuda_fp16.h>\n" if name == "float16" else ""
        self.kernel = cuda.RawKernel(head + SOURCE.replace("scalar_t", text), "channel_mean")

    def __call__(self, grid, block, args, **more):
        self.calls.append((grid, block, args))
        n_args = "(x, out, channels, pixels)"
        require(len(args) == 4, what=f"the kernel is given {len(args)} arguments", hint=f"its arguments are {n_args}")
        if any(getattr(array, "dtype", None) != DTYPES[self.name] for array in args[:2]):
            found = " and ".join(str(getattr(array, "dtype", type(array).__name__)) for array in args[:2])
            hint = "kernels has one for each dtype; the arrays' own says which: out.dtype.name"
            raise Wrong(f"the kernel for {self.name} is given {found}", hint)
        # what a launch beyond the arrays would do to the memory behind them, nobody would see here
        x, _, channels, pixels = args
        hint = "channels: those of all pictures, N·C; pixels: of one of them, H·W. In this order"
        what = f"channels = {channels}, pixels = {pixels} for x of shape {x.shape}"
        require(channels * pixels == x.size and channels == x.shape[0] * x.shape[1], what=what, hint=hint)
        self.kernel(grid, block, args, **more)


def check(plug_in_your_kernel):
    kernels = {name: Noted(name) for name in DTYPES}
    mean = plug_in_your_kernel(kernels)
    if mean is None:
        raise ToDo("plug_in_your_kernel(kernels) gives nothing back yet")
    hint = "define a function within yours, and return it; it launches when it is called, not before"
    require(callable(mean), what=f"plug_in_your_kernel(kernels) gives a {type(mean).__name__}", hint=hint)
    random = numpy_random()
    for name, dtype in DTYPES.items():
        for shape in SHAPES:
            x = cuda.asarray((random.standard_normal(shape) + 1).astype(dtype))
            out = cuda.full((*shape[:2], 1, 1), np.nan, dtype)
            noted = kernels[name]
            noted.calls.clear()
            what = f"mean(x, out=out), x {name} of shape {shape}"
            try:
                mean(x, out=out)
            except TypeError as error:
                if "argument 'out'" not in str(error):
                    raise
                hint = "the network calls it with x and with out=…: def mean(x, *, out)"
                raise Wrong(f"{what}: {error}", hint) from None
            hint = "the kernel of the arrays' dtype has to be launched, once"
            require(len(noted.calls) == 1, what=f"{what} launches it {len(noted.calls)} times", hint=hint)
            (grid, block, _), wanted = noted.calls[0], -(-shape[0] * shape[1] // 128)
            require(math.prod(block) == 128, what=f"{what}: the block is {block}", hint="blocks of 128 threads: (128,)")
            blocks = math.prod(grid)
            more = "rounded down, some channels have no thread" if blocks < wanted else "one is too many"
            told = f"{what}: the grid is {grid}, {shape[0] * shape[1]} channels need {wanted} blocks of 128"
            require(blocks == wanted, what=told, hint=f"{more}; round up: (channels + 127) // 128")
            got = cuda.asnumpy(out)
            hint = "the network reads its own out, and throws away what the function returns: pass out to the kernel"
            require(not np.isnan(got).any(), what=f"{what} leaves NaN in out", hint=hint)
            want = cuda.asnumpy(x).astype(np.float64).mean((2, 3), keepdims=True)
            close = np.abs(got - want).max() <= (1e-5 if name == "float32" else 5e-3) * max(1, np.abs(want).max())
            require(bool(close), what=f"{what}: out is not the mean", hint="x and out, in this order")

    model = weights.model("digits")
    x = random.standard_normal((2, 3, 48, 48)).astype(np.float32)
    want = Network(model, "onnxruntime")(x)
    got = Network(model, layout="NCHW", operators={"global_avg_pool": mean})(x)
    hint = "the function is called with other arrays for other shapes; it may keep none of them"
    expect(got, want, what="a network with it", hint=hint, rtol=1e-4)
