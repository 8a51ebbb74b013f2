"""What the milestones of chapters 04 to 06 hold an engine to.

A chapter's judge (judging.JUDGES) takes a held-out model and the engine, and gives the scores that are named here, by
the calls that are named here. All of them but `µs` and `roof` are the same on every machine: they come from results,
from the plan, and from the simulator's trace.
"""

import pytest

from common.lab import judging, milestones
from common.lab.cases import CASES
from common.lab.engine import REFERENCE
from common.lab.engine_files import FILES

# chapter: the files that the milestone runs, and its scores
SCORES = {
    4: (
        [f"kernels/{name}.cu" for name in ("add", "pool", "gemm", "conv", "pointwise", "depthwise")],
        {
            "error": "largest ‖out − float64‖ / ‖float64‖ over the kernel's shapes; at most 1e-6·√K, K terms per sum",
            "sectors": "32-byte sectors that its loads and stores of global memory touch, by the trace",
            "bank conflicts": "wavefronts of shared memory beyond one per request",
            "findings": "what the sanitizer finds: races, accesses out of bounds, uninitialised reads; none allowed",
            "µs": "on a GPU",
            "roof": "on a GPU: the share of its bytes at copy bandwidth, or of its multiply-adds at peak",
        },
    ),
    5: (
        [
            "graph.py", "weights.py", "plan.py", "engine.py",
            *(f"kernels/{name}.cu" for name in ("add", "pool", "gemm", "conv", "pointwise", "depthwise")),
        ],
        {
            "own error": "largest ‖out − float64‖ / ‖float64‖ of a step's launch alone; at most 1e-6·√K, K terms a sum",
            "error": "the same of its output in the run, after the steps before it; at most 1e-5, of the logits, too",
            "digits": "held-out digits that the network `digits` reads rightly; all as ONNX Runtime reads them",
            "launches": "kernels that one inference launches; 54 for MobileNetV2",
            "bytes moved": "arrays of all launches, each once per launch",
            "peak memory": "bytes of the arena",
            "findings": "what the sanitizer finds in the launches; none allowed",
            "µs": "on a GPU",
        },
    ),
    6: (
        ["kernels/block.cu", "blocks.py"],
        {
            "own error": "as in chapter 05, of a step alone; of the kernel block on its held-out shapes",
            "error": "as in chapter 05, in the run; at most 1e-5",
            "digits": "held-out digits that the network `digits` reads as ONNX Runtime does; all of them",
            "launches": "fewer than in chapter 05: an inverted residual is one",
            "bytes moved": "fewer than in chapter 05: no hidden tensor is written",
            "peak memory": "bytes of the arena",
            "findings": "what the sanitizer finds in the launches; none allowed",
            "µs": "on a GPU",
            "roof": "on a GPU, of the kernel block: the share of the time that its bytes or multiply-adds need",
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("chapter", SCORES)
def test_the_files_are_the_engines(chapter):
    assert set(SCORES[chapter][0]) <= set(FILES)
    assert max(FILES[file].chapter for file in SCORES[chapter][0]) == chapter


@pytest.mark.parametrize("chapter", SCORES)
def test_the_scores(chapter):
    assert set(milestones.COLUMNS[chapter]) == set(SCORES[chapter][1])


def test_the_reference_passes():
    """Of chapter 04; of chapters 05 and 06: test_engine_milestone.py and test_block_milestone.py."""
    for case in CASES[4]:
        outcome = judging.judge(4, case, {case.file: (REFERENCE / case.file).read_text()})
        assert outcome.passed and set(outcome.scores) <= set(SCORES[4][1]), outcome
        assert outcome.scores.keys() >= SCORES[4][1].keys() - {"µs", "roof"}


def test_kernels_are_launched_by_the_names_in_engine_files(rng):
    """Chapter 04: `add(a, b, out, n)` of kernels/add.cu, fp32 arrays of length n, on any grid that covers n."""
    from pathlib import Path

    import numpy as np

    from common import cuda
    from common.lab.engine import REFERENCE

    kernel = cuda.RawKernel(Path(REFERENCE, "kernels/add.cu").read_text(), "add")
    for n in (1, 33, 1009):
        a, b = rng.standard_normal((2, n), dtype=np.float32)
        out = cuda.asarray(np.full(n, np.nan, np.float32))
        kernel((-(-n // 128),), (128,), (cuda.asarray(a), cuda.asarray(b), out, np.int32(n)))
        np.testing.assert_array_equal(cuda.asnumpy(out), a + b)


@pytest.mark.parametrize("module", ["engine", "blocks"])
def test_an_engine_reads_the_digits(module):
    """Chapters 05 and 06: `bind(model)` once, `run(engine, x)` per batch: x (N, 1, H, W) fp32, logits (N, 10)."""
    import importlib

    from common import weights
    from common.lab.engine import open_engine

    open_engine()  # a copy of the reference
    engine = importlib.import_module(f"engine.{module}")
    split = weights.digits_split()
    bound = engine.bind(weights.model("digits"))
    logits = engine.run(bound, weights.digits_input(split.test_images[:8]))
    assert logits.shape == (8, 10)
    assert (logits.argmax(1) == split.test_labels[:8]).mean() > 0.9
