"""cuBLAS's product and cuDNN's calls on the CPU: they read memory as the libraries do, and name wrong arguments."""

import numpy as np
import pytest

from common import cudnn
from common.cudnn import blas, emulation, operators, plans, recording
from common.cudnn.graphs import Graph, Node, gradient_to_input

POINTWISE = {"x": (1, 384, 14, 14), "w": (64, 384, 1, 1), "bias": True, "bounds": (0.0, 6.0)}


def arguments(m, n, k, transpose_a=False, transpose_b=False):
    """Those of a dense product."""
    return {
        "m": m, "n": n, "k": k, "lda": k if transpose_a else m, "ldb": n if transpose_b else k, "ldc": m,
        "transa": "NT"[transpose_a], "transb": "NT"[transpose_b],
    }  # fmt: skip


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_a_product_of_column_major_matrices(rng, transpose_a, transpose_b):
    a, b = rng.standard_normal((3, 5)), rng.standard_normal((5, 4))
    out = np.full(12, np.nan)
    left, right = (a.T if transpose_a else a), (b.T if transpose_b else b)
    flat = (np.asfortranarray(one).ravel("F") for one in (left, right))
    emulation.gemm(*flat, out, **arguments(3, 4, 5, transpose_a, transpose_b))
    np.testing.assert_allclose(out.reshape((3, 4), order="F"), a @ b)


def test_row_major_arrays_where_they_lie(rng):
    a, b, out = rng.standard_normal((3, 5)), rng.standard_normal((5, 4)), np.full((3, 4), np.nan)
    emulation.gemm(b.ravel(), a.ravel(), out.reshape(-1), **arguments(4, 3, 5))
    np.testing.assert_allclose(out, a @ b)


def test_a_batch_with_one_factor_for_all(rng):
    a, b, out = rng.standard_normal((2, 5, 3)), rng.standard_normal((4, 5)), np.full((2, 4, 3), np.nan)
    emulation.gemm(
        a.ravel(), b.ravel(), out.reshape(-1), **arguments(3, 4, 5), batch=2, stride_a=15, stride_c=12
    )  # fmt: skip
    np.testing.assert_allclose(out, b @ a)


@pytest.mark.parametrize(("beta", "nans"), [(0.0, 0), (1.0, 4)])
def test_without_beta_the_memory_is_not_read(beta, nans):
    out = np.full(4, np.nan)
    emulation.gemm(np.ones(4), np.ones(4), out, **arguments(2, 2, 2), beta=beta)
    assert np.isnan(out).sum() == nans


def test_beta_adds_what_is_there():
    out = np.full(4, 3.0)
    emulation.gemm(np.ones(4), np.ones(4), out, **arguments(2, 2, 2), beta=0.5)
    assert out.tolist() == [3.5] * 4


@pytest.mark.parametrize("name", ["lda", "ldb", "ldc"])
def test_a_leading_dimension_that_is_too_small_is_named(name):
    sizes = arguments(3, 4, 5)
    with pytest.raises(ValueError, match=f"{name} must be at least {sizes[name]}, .* got {sizes[name] - 1}"):
        emulation.gemm(np.ones(15), np.ones(20), np.ones(12), **sizes | {name: sizes[name] - 1})


def test_a_matrix_beyond_its_memory_is_refused():
    with pytest.raises(ValueError, match="ends at element 5, the memory has 5 elements"):
        emulation.matrix(np.ones(5), 0, 3, 2, 3)
    assert emulation.matrix(np.arange(6), 0, 3, 2, 3).tolist() == [[0, 3], [1, 4], [2, 5]]


def test_memory_of_another_size_and_unknown_nodes_are_refused():
    graph = next(iter(cudnn.Convolution((1, 2, 3, 3), (2, 2, 1, 1)).compositions()))[0]
    with pytest.raises(ValueError, match="x must have 18 elements, got 17"):
        emulation.run(graph, {"x": np.ones(17), "w": np.ones(4)})
    backward = gradient_to_input(cudnn.Convolution((1, 2, 3, 3), (2, 2, 1, 1)))
    with pytest.raises(ValueError, match="no emulation of the node conv_dgrad"):
        emulation.run(backward, {"dy": np.ones(18), "w": np.ones(4)})


# ---- The recorder of calls


def with_identity(**options):
    return next(iter(cudnn.Convolution(**POINTWISE | options, layout="NHWC", arithmetic="fp16").compositions()))[0]


def test_the_calls_of_a_graph():
    calls = recording.calls(with_identity())
    assert calls[0].startswith("graph = pygraph(io_data_type=data_type.HALF, intermediate_data_type=data_type.FLOAT")
    assert calls[1] == (
        "x = graph.tensor(name='x', dim=[1, 384, 14, 14], stride=[75264, 1, 5376, 384], data_type=data_type.HALF)"
    )
    assert recording.operations(with_identity()) == [
        "t1 = graph.conv_fprop(image=x, weight=w, padding=[0, 0], stride=[1, 1], dilation=[1, 1])",
        "t2 = graph.identity(t1)",
        "t3 = graph.add(t2, bias)",
        "t4 = graph.relu(t3, lower_clip=0.0, upper_clip=6.0)",
    ]
    assert "t4.set_output(True)" in calls and calls[-1] == "graph.check_support()"


@pytest.mark.parametrize(
    ("arithmetic", "notes"),
    [
        ("fp32", "graph.deselect_numeric_notes([numerical_note.TENSOR_CORE, numerical_note.DOWN_CONVERT_INPUTS, "
         "numerical_note.REDUCED_PRECISION_REDUCTION])"),
        ("tf32", "graph.select_numeric_notes([numerical_note.TENSOR_CORE])"),
        ("fp16", "graph.deselect_numeric_notes([numerical_note.REDUCED_PRECISION_REDUCTION])"),
    ],
)  # fmt: skip
def test_each_precision_permits_what_it_says(arithmetic, notes):
    graph = list(cudnn.Convolution(**POINTWISE, layout="NHWC", arithmetic=arithmetic).compositions())[-1][0]
    assert [call for call in recording.calls(graph) if "numeric_notes" in call] == [notes]


def test_backward_graphs_are_listed_too():
    (line,) = recording.operations(gradient_to_input(cudnn.Convolution((1, 2, 3, 3), (2, 2, 1, 1))))
    assert line.startswith("t1 = graph.conv_dgrad(loss=dy, filter=w, ")


@pytest.mark.parametrize(
    "build",
    [
        lambda graph, x, w, bias: graph.add(graph.conv_fprop(image=x, weight=w, padding=[0, 0]), bias),
        lambda graph, x, w, bias: graph.add(a=graph.conv_fprop(x, w, padding=[0, 0]), b=bias),
        lambda graph, x, w, bias: graph.add(graph.conv_fprop(padding=[0, 0], weight=w, image=x), b=bias),
        lambda graph, x, w, bias: graph.add(bias, graph.conv_fprop(x, weight=w, padding=[0, 0])),
        lambda graph, x, w, bias: graph.add(b=graph.conv_fprop(x, weight=w, padding=[0, 0]), a=bias),
    ],
)
def test_calls_that_mean_the_same_are_listed_alike(build):
    assert recording.recorded(build, "x", "w", "bias") == [
        "t1 = graph.conv_fprop(image=x, weight=w, padding=[0, 0])", "t2 = graph.add(t1, bias)"
    ]  # fmt: skip


def test_calls_that_differ_are_listed_as_they_are():
    swapped = recording.recorded(lambda graph, x, w: graph.conv_fprop(w, x), "x", "w")
    assert swapped == ["t1 = graph.conv_fprop(image=w, weight=x)"]
    assert recording.recorded(lambda graph, x: graph.add(x), "x") == ["t1 = graph.add(x)"]


def test_calls_of_ones_own():
    def build(graph, x, bias):
        return graph.relu(graph.add(x, bias)).set_output(True)

    assert recording.recorded(build, "x", "bias") == [
        "t1 = graph.add(x, bias)", "t2 = graph.relu(t1)", "t2.set_output(True)"
    ]  # fmt: skip


def test_the_stand_in_is_gone_afterwards():
    recording.calls(with_identity())
    if cudnn.missing():
        with pytest.raises(RuntimeError):
            plans.lower(with_identity())


def test_a_graph_without_operands_is_listed():
    graph = with_identity()
    bare = Graph(graph.tensors[:1], (Node("identity"),), graph.output, "fp16")
    assert recording.operations(bare) == ["t1 = graph.identity(x)"]


def test_a_precision_that_arrays_cannot_have_is_refused():
    for dtype, arithmetic, words in (
        (np.float16, "tf32", "arithmetic for float16 arrays must be fp16, got 'tf32'"),
        (np.float32, "bf16", "arithmetic must be one of fp32, tf32, fp16, got 'bf16'"),
    ):
        with pytest.raises(ValueError, match=words):
            operators.arithmetic_for(dtype, arithmetic)


def test_what_runs_on_cublas_has_a_workspace():
    graph = next(iter(cudnn.Convolution((1, 8, 5, 5), (4, 8, 1, 1)).compositions()))[0]
    plan = blas.plan_of(graph)
    assert plan is not None and (plan.name, plan.workspace) == ("cuBLAS", 32 << 20)
