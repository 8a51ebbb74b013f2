"""The roofs of the CPU: right results, relations that hold on every machine, and the same units as a second method."""

import platform

import numpy as np
import pytest

from common.measure import cpu
from common.measure.cpu import CpuRoofs
from common.measure.roofline import Work

ROOFS = CpuRoofs(
    dram_bytes_per_s=20e9, l2_bytes_per_s=100e9, flops_per_s=80e9,
    l2_size=2**20, last_size=2**25, dram_touched=2**27, l2_touched=2**19,
)  # fmt: skip


@pytest.fixture(scope="module")
def roofs():
    return cpu.measure_cpu(samples=5)


def test_the_cache_is_not_slower_than_memory(roofs):
    assert roofs.l2_bytes_per_s >= 0.8 * roofs.dram_bytes_per_s
    assert roofs.ridge("L2") <= 1.25 * roofs.ridge("DRAM")


def test_the_sizes_fit_their_levels(roofs):
    assert 2**16 <= roofs.l2_touched <= roofs.l2_size / 2 <= roofs.last_size / 2
    assert roofs.dram_touched >= min(4 * roofs.last_size, 2**30)
    assert (roofs.l2_size, roofs.last_size) == cpu.cache_sizes()


def test_numpy_copies_about_as_fast(roofs):
    """A second method, with other code and another clock: a wrong unit would be a factor of 8 or of 1000."""
    source = np.ones(roofs.dram_touched // 8, np.float32)
    out = np.empty_like(source)
    seconds = 1e-6 * cpu.cpu_us(lambda: np.copyto(out, source), samples=5)
    assert 1 / 3 < (source.nbytes + out.nbytes) / seconds / roofs.dram_bytes_per_s < 3


def test_a_matrix_product_does_not_beat_the_arithmetic(roofs):
    """torch's product on one core is below the roof, and within a factor of ten of it."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        a, b = torch.randn(512, 512), torch.randn(512, 512)
        flops = 2 * 512**3 / (1e-6 * min(cpu.cpu_us(lambda: a @ b, samples=1) for _ in range(30)))  # the best, too
    finally:
        torch.set_num_threads(before)
    assert 0.1 < flops / roofs.flops_per_s < 1.5


def test_more_work_takes_longer_at_the_roof():
    for level in ("DRAM", "L2"):
        assert ROOFS.roof_us(Work(2000, 10), level) > ROOFS.roof_us(Work(1000, 10), level)
        assert ROOFS.roof_us(Work(1000, 10**6), level) == pytest.approx(12.5)  # 10⁶ / 80e9 s
    assert ROOFS.roof_us(Work(10**6, 0)) == pytest.approx(50.0)
    assert ROOFS.roof_us(Work(10**6, 0), "L2") == pytest.approx(10.0)
    assert (ROOFS.ridge(), ROOFS.ridge("L2")) == (4.0, 0.8)


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="level must be one of DRAM, L2, got 'L3'"):
        ROOFS.roof_us(Work(1, 1), "L3")
    with pytest.raises(ValueError, match="touched must be at least 8, got 7"):
        cpu.copy_rate(7)
    with pytest.raises(ValueError, match="samples must be at least 1, got 0"):
        cpu.copy_rate(800, 0)


@pytest.mark.parametrize("name", ["copy_seconds", "fma_seconds"])
def test_a_function_that_does_nothing_is_found(monkeypatch, name):
    class Lazy:
        def __getattr__(self, asked):
            return (lambda *arguments: 1.0) if asked == name else getattr(library, asked)

    library = cpu._library()
    monkeypatch.setattr(cpu, "_library", Lazy)
    with pytest.raises(RuntimeError, match=r"cpu\.cpp: "):
        cpu.copy_rate(8000, 1) if name == "copy_seconds" else cpu.fma_rate(1)


def cache(folder, index, level, kind, size):
    (folder / f"index{index}").mkdir(parents=True)
    for name, value in {"level": level, "type": kind, "size": size}.items():
        (folder / f"index{index}" / name).write_text(f"{value}\n")


@pytest.mark.skipif(platform.system() != "Linux", reason="reads what Linux says of its caches")
def test_cache_sizes_are_read(tmp_path):
    assert cpu.cache_sizes(tmp_path) == (cpu.L2_UNKNOWN, cpu.LAST_UNKNOWN)
    cache(tmp_path, 0, 1, "Data", "48K")
    cache(tmp_path, 1, 1, "Instruction", "32K")
    cache(tmp_path, 2, 2, "Unified", "1280K")
    assert cpu.cache_sizes(tmp_path) == (1280 * 2**10, 1280 * 2**10)
    cache(tmp_path, 3, 3, "Unified", "12M")
    assert cpu.cache_sizes(tmp_path) == (1280 * 2**10, 12 * 2**20)


def test_a_short_call_is_repeated_within_a_sample():
    calls = []
    assert 0 < cpu.cpu_us(lambda: calls.append(1), samples=3) < 1000
    assert len(calls) > 100


def test_a_call_that_makes_a_new_array_does_not_pay_for_new_pages():
    torch, resource = pytest.importorskip("torch"), pytest.importorskip("resource")
    if not cpu.reuse_memory():
        pytest.skip("this C library has no mallopt")
    arrays = []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(100):
        arrays = [torch.ones(3_600_000)]  # 14 MB, 3,516 pages of 4 KiB
    pages = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    assert len(arrays) == 1 and pages < 100 * 3516 / 4, f"{pages:,} new pages"


@pytest.mark.parametrize(("kernel", "groups"), [(1, 1), (3, 12)])
def test_the_fused_convolution_is_the_separate_one(monkeypatch, kernel, groups):
    torch = pytest.importorskip("torch")
    x, weight, bias = torch.randn(2, 12, 9, 7), torch.randn(24, 12 // groups, kernel, kernel), torch.randn(24)
    separate = torch.nn.functional.conv2d(3 * x, weight, None, 1, kernel // 2, 1, groups)
    biased = separate + bias.view(1, -1, 1, 1)
    if cpu.has_fused():
        got = cpu.convolution(3 * x, weight, bias, kernel // 2, groups, relu6=True)
        assert torch.allclose(got, torch.nn.functional.relu6(biased), atol=1e-4)
    for _ in range(2):  # with oneDNN, if there is one, and without
        assert torch.allclose(cpu.convolution(3 * x, weight, None, kernel // 2, groups), separate, atol=1e-4)
        assert torch.allclose(cpu.convolution(3 * x, weight, bias, kernel // 2, groups), biased, atol=1e-4)
        monkeypatch.setattr(cpu, "has_fused", lambda: False)
    with pytest.raises(RuntimeError, match="no fused convolution"):
        cpu.convolution(x, weight, bias, relu6=True)


def test_a_block_is_timed_in_two_layouts():
    pytest.importorskip("torch")
    timed = cpu.time_block(6, 4, 24, samples=1)
    kinds = ["expand", "depthwise", "project"]
    assert [one.kind for one in timed] == [kind for kind in kinds for _ in range(2)]
    assert [one.layout for one in timed] == ["contiguous", "channels last"] * 3
    assert [one.work.flops for one in timed[::2]] == [2 * 36 * 4 * 24, 2 * 36 * 24 * 9, 2 * 36 * 24 * 4]
    assert all(one.us > 0 and one.shape == "6×6 4" for one in timed)
