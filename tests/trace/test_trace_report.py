"""The report of a trace: in a terminal, in a notebook, as a picture, and of every way in which a kernel can be made."""

# ruff: noqa: E501 (texts of kernels and messages)

import io
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiers import seldom

from common import cuda
from common.cuda.listing import BLUE, ORANGE, VERMILION
from common.cuda.report import FINE, LEGEND, WASTE, WRONG
from common.kernels.ladder import header_options

SOURCE = r"""
template <class T, int N> __device__ T tail(const T* in, int i) { return i < N && i > 0 ? in[i] : T(0); }
extern "C" __global__ void tile(const float* __restrict__ in, float* __restrict__ out) {
    __shared__ float s[32][32];
    int x = threadIdx.x, y = threadIdx.y;
    s[y][x] = in[y * 32 + x];
    __syncthreads();
    out[y * 32 + x] = s[x][y];  // <b>bold</b> & "quoted"
}
extern "C" __global__ void bins(const int* __restrict__ in, int* counts) {
    __shared__ int local[4];
    if (threadIdx.x < 4) local[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&local[in[threadIdx.x] % 4], 1);
    __syncthreads();
    if (threadIdx.x < 4) atomicAdd(&counts[threadIdx.x], local[threadIdx.x]);
}
template <class T, int N> __global__ void wide(const T* in, T* out) {
    extern __shared__
        float4 pieces[];
    pieces[threadIdx.x * N] = ((const float4*)in)[threadIdx.x];
    __syncwarp();
    ((float4*)out)[threadIdx.x] = pieces[threadIdx.x * N];
    __syncwarp();
    if (threadIdx.x < 3) out[threadIdx.x] = tail<T, 2>(in, threadIdx.x);
}
"""
LINES = {text.strip(): i for i, text in enumerate(SOURCE.splitlines(), 1)}


@pytest.fixture(scope="module")
def kernels() -> Any:
    return cuda.RawModule(SOURCE, name_expressions=["wide<float, 2>", "wide<int, 1>"])


@pytest.fixture(scope="module")
def tile(kernels: Any) -> Any:
    arrays = [np.arange(1024, dtype=np.float32), np.zeros(1024, np.float32)]
    return cuda.trace(kernels.get_function("tile"), (1,), (32, 32), arrays)


@pytest.fixture(scope="module")
def wide(kernels: Any) -> Any:
    arrays = [np.arange(128, dtype=np.float32), np.zeros(128, np.float32)]
    return cuda.trace(kernels.get_function("wide<float, 2>"), (1,), (32,), arrays, shared_mem=1024)


def test_the_table_says_line_array_and_counts(tile: Any) -> None:
    text = str(tile)
    assert text.startswith("tile: 1 block of 32×32 threads traced")
    assert max(map(len, text.splitlines())) <= 95
    (row,) = (line for line in text.splitlines() if "shared load" in line)
    assert row.split() == ["8", "shared", "load", "s", "4", "32", "1024", "32", "32.00"]


def test_lines_and_at(tile: Any) -> None:
    assert [(e.line, e.kind, e.array) for e in tile.lines] == [
        (6, "load", "in"), (6, "store", "s"), (8, "load", "s"), (8, "store", "out")]  # fmt: skip
    assert tile.at(8) == tile.lines[2:]
    assert tile.at(7) == ()
    assert tile.at(8)[0].counts.conflicts == 1024 - 32
    with pytest.raises(AttributeError, match="sectors are counted in global memory"):
        _ = tile.shared_loads.sectors


class Rows(HTMLParser):
    """The rows of a listing in HTML: (edge colour or "", text of the line, texts of its notes)."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows: list[tuple[str, list[str]]] = []
        self.depth, self.in_listing = 0, False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list) -> None:
        style = dict(attrs).get("style") or ""
        if tag == "pre":
            self.in_listing = True
        elif tag == "div" and self.in_listing:
            self.depth += 1
            if self.depth == 1:
                edge = style.split("border-left:4px solid ")[1].split(";")[0]
                self.rows.append((edge.replace("transparent", ""), [""]))
            else:
                self.rows[-1][1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "div" and self.in_listing:
            self.depth -= 1
        self.in_listing = self.in_listing and tag != "pre"

    def handle_data(self, data: str) -> None:
        if self.in_listing:
            self.rows[-1][1][-1] += data


def test_the_notebook_shows_the_source_escaped_and_counts_below_its_lines(tile: Any) -> None:
    html = tile._repr_html_()
    assert "<b>bold</b>" not in html and "&lt;b&gt;bold&lt;/b&gt; &amp; &quot;quoted&quot;" in html
    rows = Rows(html).rows
    assert [texts[0] for _, texts in rows] == [
        f"{i}{text}" if text else f"{i} " for i, text in enumerate(SOURCE.splitlines(), 1)
    ]
    assert {i: edge for i, (edge, _) in enumerate(rows, 1) if edge} == {
        6: BLUE,
        8: ORANGE,
    }  # line 8 wastes, line 6 does not
    assert rows[5][1][1:] == ["· load in: 32 requests, 128 sectors", "· store s: 32 requests, 32 wavefronts"]
    assert rows[7][1][1:] == [
        "▲ load s: 32 requests, 1024 wavefronts, 32 would do (32×)",
        "· store out: 32 requests, 128 sectors",
    ]
    assert "<b>32 would do (32×)</b>" in html
    assert "✗" not in html


def test_the_legend_explains_the_marks_that_are_there(tile: Any) -> None:
    def legend(html: str) -> str:
        return html[html.index("</pre>") :]

    assert FINE + " " + LEGEND[FINE] in legend(tile._repr_html_()) and WASTE + " " + LEGEND[WASTE] in legend(
        tile._repr_html_()
    )
    assert LEGEND[WRONG] not in tile._repr_html_()
    source = 'extern "C" __global__ void k(float* out) { out[threadIdx.x] = 1; }'
    html = cuda.trace(cuda.RawKernel(source, "k"), (1,), (32,), [np.zeros(32, np.float32)])._repr_html_()
    assert LEGEND[FINE] in legend(html) and WASTE not in html
    assert "k: 1 block of 32 threads traced" in html


def test_wrong_lines_are_marked() -> None:
    source = 'extern "C" __global__ void k(float* out) {\n    __shared__ float s[64];\n    s[threadIdx.x] = 1;\n    out[threadIdx.x] = s[63 - threadIdx.x];\n}'
    report = cuda.trace(cuda.RawKernel(source, "k"), (1,), (64,), [np.zeros(64, np.float32)])
    html = report._repr_html_()
    assert "✗ race</b>, line 4: thread" in html[: html.index("<pre")]  # above what may scroll
    rows = Rows(html).rows
    assert [(i, edge) for i, (edge, _) in enumerate(rows, 1) if edge] == [(3, VERMILION), (4, VERMILION)]
    assert (rows[2][1][1], rows[3][1][1]) == ("✗ race with line 4", "✗ race with line 3")
    assert WRONG + " " + LEGEND[WRONG] in html
    assert "! race, line 4: thread" in str(report)
    assert html == report._repr_html_()


def test_inlined_functions_and_rewritten_lines_keep_their_numbers(wide: Any) -> None:
    first = LINES["pieces[threadIdx.x * N] = ((const float4*)in)[threadIdx.x];"]
    assert [(e.line, e.kind, e.array, e.size) for e in wide.lines] == [
        (2, "load", "in", 4), (first, "load", "in", 16), (first, "store", "pieces", 16),
        (first + 2, "load", "pieces", 16), (first + 2, "store", "out", 16), (first + 4, "store", "out", 4)]  # fmt: skip
    assert wide.at(first)[1].counts.wavefronts == 8  # 16-byte accesses at a stride of 32 bytes: 4 quarters, twice
    assert wide.findings == ()


def test_modules_macros_and_included_files(tmp_path: Path) -> None:
    (tmp_path / "part.h").write_text("__device__ float part(const float* p, int i) {\n    return p[i];\n}\n")
    source = '#include "part.h"\nextern "C" __global__ void k(const float* in, T* out) {\n    out[threadIdx.x] = part(in, threadIdx.x * STRIDE);\n}\n'
    module = cuda.RawModule(source, options=("-DSTRIDE=8", "-DT=float", f"-I{tmp_path}"))
    report = cuda.trace(module.get_function("k"), (1,), (32,), [np.zeros(256, np.float32), np.zeros(32, np.float32)])
    assert [(e.line, e.kind, e.array, e.counts.sectors) for e in report.lines] == [
        (3, "load", "in", 32),
        (3, "store", "out", 4),
    ]
    assert report.findings == ()


@pytest.mark.parametrize(
    ("blocks", "traced", "stores"),
    [(None, 5, 20), (1, 1, 4), (3, 3, 12), (9, 5, 20), ([4], 1, 4), ((0, 2, 4), 3, 12), ({1}, 1, 4), (range(2), 2, 8),
     (np.int64(2), 2, 8), (np.array([3, 3]), 1, 4), ([], 0, 0)],
)  # fmt: skip
def test_blocks_chooses_what_is_watched(blocks: Any, traced: int, stores: int) -> None:
    source = 'extern "C" __global__ void k(float* out) { out[blockIdx.x * 32 + threadIdx.x] = 1; }'
    out = np.zeros(160, np.float32)
    if isinstance(blocks, np.ndarray):
        blocks = blocks.tolist()
    report = cuda.trace(cuda.RawKernel(source, "k"), (5,), (32,), [out], blocks=blocks)
    assert (report.traced_blocks, report.global_stores.sectors) == (traced, stores)
    assert out.sum() == 160  # the others ran as well


@pytest.mark.parametrize(("blocks", "error"), [(0, ValueError), ([5], ValueError), ([-1], ValueError), ("1", TypeError),
                                               (1.5, TypeError), (True, TypeError)])  # fmt: skip
def test_blocks_that_are_not_there_are_errors(blocks: Any, error: type[Exception]) -> None:
    source = 'extern "C" __global__ void k(float* out) { out[blockIdx.x * 32 + threadIdx.x] = 1; }'
    with pytest.raises(error, match="blocks must be"):
        cuda.trace(cuda.RawKernel(source, "k"), (5,), (32,), [np.zeros(160, np.float32)], blocks=blocks)


def _drawn(figure: Any) -> np.ndarray:
    from matplotlib import image

    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=40)
    file.seek(0)
    return image.imread(file)


@seldom(3)
def test_pictures_of_every_kind_of_access(tile: Any, wide: Any, kernels: Any) -> None:
    pytest.importorskip("matplotlib").use("agg")
    bins = cuda.trace(kernels.get_function("bins"), (1,), (45,), [np.arange(45, dtype=np.int32), np.zeros(4, np.int32)])
    for report in (tile, wide, bins):
        for request in {(one.kind, one.array): one for one in report.requests}.values():
            figure = report.picture(request.line, kind=request.kind, array=request.array)
            assert f"{request.kind} of {request.array}" in figure.axes[0].get_title()
            assert len(np.unique(_drawn(figure).reshape(-1, 4), axis=0)) > 10
    (shared,) = tile.picture(8, array="s").axes
    assert len(shared.patches) == 32  # one square a lane, all in one bank
    assert len({patch.get_x() for patch in shared.patches}) == 1
    (sectors,) = wide.picture(wide.lines[1].line, kind="load").axes
    assert len(sectors.patches) == 32 and "16 sectors" in sectors.get_xlabel()


def test_requests_that_are_not_there_are_errors(tile: Any) -> None:
    with pytest.raises(ValueError, match="line 7 made 0 such requests that were kept, number 0 is none of them"):
        tile.picture(7)
    with pytest.raises(ValueError, match="line 6 made 8 such requests"):
        tile.picture(6, request=8, kind="load")
    with pytest.raises(ValueError):
        tile.picture(6, kind="atomic")
    with pytest.raises(ValueError):
        tile.picture(6, request=-1)


class OnTheGpu:
    """As much of a CuPy array as a trace uses."""

    __module__ = "cupy"

    def __init__(self, values: np.ndarray) -> None:
        self.values, self.sets = values, 0
        self.shape, self.strides, self.dtype = values.shape, values.strides, values.dtype
        self.ndim, self.flags = values.ndim, values.flags
        self.data = type("Pointer", (), {"ptr": 256 * id(values)})

    def get(self) -> np.ndarray:
        return self.values.copy(order="K")

    def set(self, values: np.ndarray) -> None:
        assert values.strides == self.strides
        self.values[...], self.sets = values, self.sets + 1


def test_arrays_of_a_gpu_are_copied_there_and_back() -> None:
    source = 'extern "C" __global__ void k(float* out, const float* in, float* same) { out[threadIdx.x] = in[threadIdx.x] + 1; }'
    a = OnTheGpu(np.asfortranarray(np.arange(32, dtype=np.float32).reshape(4, 8)))
    b = OnTheGpu(np.zeros((4, 8), np.float32))
    expected = a.values + 1
    report = cuda.trace(cuda.RawKernel(source, "k"), (1,), (32,), [a, a, b])
    np.testing.assert_array_equal(a.values, expected)
    assert (a.sets, b.sets) == (1, 0)
    assert report.global_stores.sectors == 4


def test_the_matrix_of_a_tensor_map_is_copied_too() -> None:
    source = """#include "bulk.h"
extern "C" __global__ void k(const __grid_constant__ TensorMap map, const float* same, float* y) {
    __shared__ __align__(128) float box[8][4];
    __shared__ Mbarrier full;
    if (threadIdx.x == 0) {
        full.init(1);
        mbarriers_ready();
        full.expect(sizeof box);
        bulk_copy_tile(box, map, 4, 1, full);
    }
    __syncthreads();
    full.wait(0);
    y[threadIdx.x] = box[threadIdx.x / 4][threadIdx.x % 4] + same[0];
}"""
    matrix = OnTheGpu(np.arange(1, 97, dtype=np.float32).reshape(12, 8))
    y = OnTheGpu(np.zeros(32, np.float32))
    kernel = cuda.RawKernel(source, "k", options=header_options())
    report = cuda.trace(kernel, (1,), (32,), [cuda.TensorMap(matrix, (8, 4)), matrix, y])
    np.testing.assert_array_equal(y.values.reshape(8, 4), matrix.values[1:9, 4:] + 1)
    assert report.findings == () and (matrix.sets, y.sets) == (0, 1)
