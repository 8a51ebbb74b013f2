"""The occupancy calculator: every number compared with NVIDIA's own, cuda_occupancy.h, compiled here."""

import ctypes
import itertools
import subprocess

import pytest

from common.cuda import nvrtc
from common.cuda.machine_code.occupancy import CARDS, occupancy
from common.cuda.simulator import find_compiler

SOURCE = r"""
#include <cstdio>
#include <cuda_occupancy.h>
// limits: of the threads, the blocks, the registers, shared memory; returns the blocks per multiprocessor
extern "C" int blocks(int major, int minor, int warps, size_t shared, size_t shared_block, size_t reserved, int sms,
                      int block, int registers, size_t bytes, int* limits) {
    cudaOccDeviceProp card = {};
    card.computeMajor = major, card.computeMinor = minor;
    card.maxThreadsPerBlock = 1024, card.maxThreadsPerMultiprocessor = warps * 32;
    card.regsPerBlock = card.regsPerMultiprocessor = 65536, card.warpSize = 32;
    card.sharedMemPerBlock = 48 * 1024, card.sharedMemPerMultiprocessor = shared, card.numSms = sms;
    card.sharedMemPerBlockOptin = shared_block, card.reservedSharedMemPerBlock = reserved;
    cudaOccFuncAttributes kernel = {};
    kernel.maxThreadsPerBlock = 1024, kernel.numRegs = registers;
    kernel.maxDynamicSharedSizeBytes = shared_block, kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    cudaOccDeviceState state = {};
    state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
    cudaOccResult result;
    if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &card, &kernel, &state, block, bytes)) return -1;
    limits[0] = result.blockLimitWarps, limits[1] = result.blockLimitBlocks;
    limits[2] = result.blockLimitRegs, limits[3] = result.blockLimitSharedMem;
    return result.activeBlocksPerMultiprocessor;
}
"""
RESOURCES = ("warps", "blocks", "registers", "shared memory")


@pytest.fixture(scope="module")
def calculator(tmp_path_factory):
    try:
        _, includes = nvrtc._wheel()
    except nvrtc.NoCompiler as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("occupancy")
    (folder / "calculator.cpp").write_text(SOURCE)
    library = folder / "calculator.so"
    command = [*find_compiler().command, "-shared", "-fPIC", "-w", *(f"-I{path}" for path in includes)]
    done = subprocess.run(
        [*command, str(folder / "calculator.cpp"), "-o", str(library)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    function = ctypes.CDLL(str(library)).blocks
    size = ctypes.c_size_t
    function.argtypes = [ctypes.c_int] * 3 + [size] * 3 + [ctypes.c_int] * 3 + [size, ctypes.POINTER(ctypes.c_int)]
    return function


@pytest.mark.parametrize("card", CARDS.values(), ids=CARDS)
def test_every_number_is_that_of_nvidias_calculator(calculator, card):
    major, minor = int(card.arch[3]), int(card.arch[4])
    limits = (ctypes.c_int * 4)()
    blocks = (1, 31, 32, 33, 64, 96, 128, 160, 192, 224, 256, 320, 384, 512, 768, 1023, 1024)
    registers = (16, 32, 33, 40, 41, 48, 56, 64, 65, 72, 80, 96, 100, 125, 128, 168, 172, 200, 255)
    shared = (0, 1, 127, 128, 1000, 4096, 8192, 10000, 16384, 33000, 48 * 1024, card.shared_block)
    for block, count, size in itertools.product(blocks, registers, shared):
        expected = calculator(
            major, minor, card.warps, card.shared, card.shared_block, card.reserved, card.multiprocessors,
            block, count, size, limits,
        )  # fmt: skip
        assert expected >= 0
        got = occupancy(card.name, block, count, size)
        where = f"{card.name}, {block} threads, {count} registers, {size} bytes"
        assert got.blocks == expected, where
        told = dict(zip(RESOURCES, limits, strict=True))
        assert min(told.values()) == told[got.limit], where
        for what in ("warps", "blocks", "registers"):
            assert got.limits[what] == told[what], (where, what)
        if size and size < card.shared_block:
            assert got.limits["shared memory"] == told["shared memory"], where


@pytest.mark.parametrize(
    ("card", "block", "registers", "shared", "blocks", "warps", "limit"),
    [
        ("H200", 256, 172, 8192, 1, 8, "registers"),  # rung 5 of gemm
        ("H200", 256, 122, 8448, 2, 16, "registers"),
        ("H200", 1024, 32, 8192, 2, 64, "warps"),
        ("H200", 32, 16, 0, 32, 32, "blocks"),
        ("H200", 512, 64, 196608, 1, 16, "shared memory"),
        ("A100", 256, 32, 0, 8, 64, "warps"),
        ("T4", 256, 32, 0, 4, 32, "warps"),
        ("L4", 1024, 32, 0, 1, 32, "warps"),
    ],
)
def test_examples(card, block, registers, shared, blocks, warps, limit):
    got = occupancy(card, block, registers, shared)
    assert (got.blocks, got.warps, got.limit) == (blocks, warps, limit)
    assert got.share == warps / CARDS[card].warps
    assert f"limited by {limit}" in str(got) and f"{warps} of {CARDS[card].warps} warps" in str(got)


def test_shared_memory_is_taken_from_the_cache():
    assert occupancy("H200", 128, 255, 0).carve_out == 8  # the system's part of 2 blocks
    assert occupancy("H200", 256, 32, 8192).carve_out == 100
    assert occupancy("T4", 1024, 32, 1).carve_out == 32


def test_what_does_not_fit():
    got = occupancy("T4", 128, 32, 64 * 1024 + 1)
    assert got.blocks == 0 and str(got) == "T4: no block fits: shared memory"
    assert occupancy("H200", 1024, 80, 0).blocks == 0
    with pytest.raises(ValueError, match="1 to 1024 threads"):
        occupancy("T4", 2048, 32, 0)
