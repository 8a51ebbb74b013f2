"""From how many zeros on skipping pays, read from records."""

from common.report import sparsity


def record(implementation, us, shape="8×8 32>32 1×1", precision="fp32", pattern="elements"):
    return {
        "implementation": implementation, "us_at": us, "shape": shape, "precision": precision, "pattern": pattern,
        "batch": 1,
    }  # fmt: skip


RECORDS = [
    record("cudnn", {"0.0": 10.0, "0.5": 10.0, "0.9": 10.0}),
    record("sparse/ballot", {"0.0": 30.0, "0.5": 14.0, "0.9": 6.0}),
    record("sparse/dense", {"0.0": 8.0, "0.5": 8.0, "0.9": 8.0}),
    record("cudnn", {"0.0": 5.0, "0.9": 5.0}, "4×4 8>8 1×1"),
    record("sparse/ballot", {"0.0": 30.0, "0.9": 6.0}, "4×4 8>8 1×1"),
    record("cudnn", {"0.0": 5.0, "0.9": 5.0}, "4×4 8>8 3×3 groups 8"),
    record("sparse/ballot", {"0.0": 1.0, "0.9": 1.0}, "4×4 8>8 3×3 groups 8"),
    record("cudnn", {"0.5": 5.0}, "one share of zeros"),
]


def test_zeros_needed_against_all_that_skip_nothing():
    first, second, grouped = sparsity.needed(RECORDS)["fp32", "elements"]
    assert 0.74 < first < 0.81 and second is None and grouped == 0.0


def test_one_scheme_against_one_other():
    cudnn = sparsity.against(RECORDS, "fp32", "elements", "ballot", "cudnn")
    assert len(cudnn) == 2 and 0.66 < cudnn[0] < 0.71 and cudnn[1] is None, "without groups"
    (twin, _) = sparsity.against(RECORDS, "fp32", "elements", "ballot", "sparse/dense")
    assert cudnn[0] < twin < 0.81
    assert sparsity.against(RECORDS, "fp16", "elements", "ballot", "cudnn") == []
    assert sparsity.against(RECORDS, "fp32", "elements", "tiles", "cudnn") == []
