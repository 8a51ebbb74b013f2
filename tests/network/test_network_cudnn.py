"""The backend cudnn in every arithmetic and layout against ONNX Runtime, and recorded in a CUDA graph."""

import numpy as np
import pytest

from common import cuda, cudnn, weights
from common.network import Network
from common.network.compare import TOLERANCES, compare, relative_error, top

if cudnn.missing():
    pytest.skip(cudnn.missing(), allow_module_level=True)

HOW = [("fp32", "fp32"), ("fp32", "tf32"), ("fp16", "fp16")]


@pytest.fixture(scope="module")
def seeded():
    return weights.model("seeded")


@pytest.mark.parametrize("layout", cuda.LAYOUTS)
@pytest.mark.parametrize(("dtype", "arithmetic"), HOW)
def test_ten_random_inputs(seeded, dtype, arithmetic, layout):
    rows = compare(seeded, 10, backends=["cudnn"], dtype=dtype, layout=layout, arithmetic=arithmetic)
    row = rows[1]
    print(f"{arithmetic} {layout}: error {row.error:.1e}, same top 5 in {row.same_top5} of {row.images}")
    assert row.backend == "cudnn" and row.arithmetic == arithmetic and row.error <= TOLERANCES[arithmetic]
    assert arithmetic != "fp32" or row.within_contract
    assert (row.error > 1e-5) == (arithmetic != "fp32")


@pytest.mark.parametrize("layout", cuda.LAYOUTS)
@pytest.mark.parametrize(("dtype", "arithmetic"), HOW)
@pytest.mark.parametrize("batch", [3, 8])
def test_batches_of_digits(rng, dtype, arithmetic, layout, batch):
    model = weights.model("digits")
    x = rng.standard_normal((batch, 3, 48, 48), dtype=np.float32)
    want = Network(model, "onnxruntime")(x)
    got = Network(model, "cudnn", dtype=dtype, layout=layout, arithmetic=arithmetic)(x)
    assert relative_error(got, want) <= TOLERANCES[arithmetic]


def test_a_recorded_program_computes_the_same(rng, seeded):
    import cupy

    net = Network(seeded, "cudnn", dtype="fp16", layout="NHWC", tune=2)
    x = rng.standard_normal((2, 3, 224, 224), dtype=np.float32)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        program = net.program(x.shape)
        program.input[...] = cupy.asarray(x)
        program.launch()
        want = program.output.copy()
        stream.begin_capture()
        program.launch()
        graph = stream.end_capture()
        program.output[...] = np.nan
        graph.launch(stream)
        stream.synchronize()
        assert bool((program.output == want).all())
    assert relative_error(cupy.asnumpy(want), Network(seeded, "onnxruntime")(x)) <= TOLERANCES["fp16"]
    assert (top(cupy.asnumpy(want), 1) == top(net(x), 1)).all()
