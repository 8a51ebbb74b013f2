"""The picture of the repository's front page shows what a trace and the trained network really say."""

import re

import numpy as np
import pytest
from tiers import long

from common import cuda, demo
from common.draw.front import ACROSS, front
from common.report import results


def test_the_picture_is_the_present_one_and_the_page_shows_it():
    (figure,) = demo.FIGURES
    assert not figure.stale(results.course(), results.Results()), "python -m common generate"
    assert "](demo.svg)" in (results.course() / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("stride", "sectors", "words"), [(1, 4, "the minimum"), (3, 12, "3 times the minimum")])
def test_sectors_are_those_of_the_trace_and_a_wrong_class_is_red(stride, sectors, words):
    kernel = cuda.RawKernel(
        'extern "C" __global__ void copy(const float* x, float* y) {\n'
        f"    float v = x[{stride} * threadIdx.x];\n    y[threadIdx.x] = v;\n}}",
        "copy",
    )
    arrays = cuda.asarray(np.zeros(32 * stride, np.float32)), cuda.empty(32, np.float32)
    labels = list(range(ACROSS))
    drawing = front(
        cuda.trace(kernel, (1,), (32,), arrays), np.zeros((ACROSS, 8, 8), np.uint8), [*labels[:-1], 9], labels, "7 of 8"
    )
    shown = {text.get_text(): text.get_color() for text in drawing.figure.axes[0].texts}
    assert f"32 threads, one load: {sectors} sectors of 32 bytes, {words}" in shown
    assert "32 threads, one store: 4 sectors of 32 bytes, the minimum" in shown
    assert shown["9"] != shown["0"] == shown["6"] and "7" not in shown
    assert f"the load touches {sectors} sectors" in drawing.alt and "0, 1, 2, 3, 4, 5, 6, 9. 7 of 8." in drawing.alt


@long  # reads all held-out digits
def test_the_page_says_of_the_picture_what_it_shows():
    alt = re.search(r"!\[([^\]]*)\]\(demo\.svg\)", (results.course() / "README.md").read_text(encoding="utf-8"))[1]
    said = demo.front().alt
    assert "the load touches 4 sectors and the store touches 32 sectors of 32 bytes" in said
    assert "4 sectors of 32 bytes" in alt and "its store 32 sectors, 8 times the minimum" in alt
    assert (last := re.search(r"right for all but the last one, a \d", alt)[0][-1]) and said.endswith(f"is a {last}.")
