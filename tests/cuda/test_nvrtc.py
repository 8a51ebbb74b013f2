"""Every CUDA text of this repository goes through NVIDIA's own compiler, for every card, on a machine without one.

NVRTC is called through ctypes, as cuda.h's documentation describes it: three wheels, no driver, no toolkit. It compiles to
machine code (--gpu-architecture=sm_…), so `ptxas` has its say as well, about shared memory for example.
"""

import ast
import re
from pathlib import Path

import answers
import pytest
from nvrtc import compile_with_nvrtc
from tiers import ALL

from common import check, cuda
from common.kernels.ladder import INCLUDE, header_options
from common.optimize import blocks_int8, few_rows, head_int8, stage_int8
from common.optimize.blocks_int8 import Int8Block, Int8Tile

ROOT = Path(__file__).parents[2]
CARDS = ["sm_75", "sm_80", "sm_90"]


def required_card(source):
    """What `requires: sm_80` in the first lines of a kernel says, as a number."""
    found = re.search(r"requires: sm_(\d+)", "\n".join(source.splitlines()[:12]))
    return int(found[1]) if found else 0


def cards(source, newest=True):
    """Those that a kernel runs on; without the newest one, unless it needs that."""
    able = [card for card in CARDS if int(card[3:]) >= required_card(source)]
    return able if newest else able[:-1] or able


# ---- The kernels of the repository


INT8_BLOCK = Int8Block(14, 14, 64, 384, 64), Int8Tile(14, 14, 1, 64, strip=7)  # a typical one
INT8_SLIDING = (
    (Int8Block(14, 14, 64, 384, 64), Int8Tile(7, 14, 1, 64, 7, chained=True, pixel_warps=2)),
    (Int8Block(28, 28, 24, 144, 32, 2), Int8Tile(7, 14, 1, 48, 1, 3, chained=True)),
    (Int8Block(112, 112, 3, 32, 16, 1, True, 224, 224), Int8Tile(8, 14, 1, 32, 2, 2, chained=True)),
    (Int8Block(112, 112, 32, 32, 16, expand=False), Int8Tile(8, 14, 1, 32, 2, 2, chained=True)),
)
INT8_ALONE = (
    (Int8Block(56, 56, 24, 144, 24), Int8Tile(7, 14, 1, 16, 7, alone=True)),
    (Int8Block(112, 112, 16, 96, 24, 2), Int8Tile(4, 14, 1, 16, 4, alone=True)),
)
INT8_WARPGROUPS = (
    (Int8Block(8, 14, 32, 192, 32), Int8Tile(8, 14, slice=64, warpgroups=True)),
    (Int8Block(7, 14, 32, 192, 32, 2), Int8Tile(4, 7, slice=64, warpgroups=True)),
)
INT8_BANDS = (
    (Int8Block(56, 56, 24, 144, 24), Int8Tile(8, 56, 2, 144, 8, 12, bands=True)),
    (Int8Block(112, 112, 16, 96, 24, 2), Int8Tile(4, 56, 4, 96, 4, 16, bands=True)),
)
INT8_STAGE = {
    "CHANNELS": 64, "LAST": 160, "LAST_STRIDE": 2, "MOST": 96, "MOST_OUT": 160, "W3": 33792, "TURNS": 10, "COUNT": 4,
    "BLOCKS": "BLOCK(64,64,1,2,1,1,0,2,1)BLOCK(64,96,1,1,0,0,0,2,1)BLOCK(96,96,1,3,1,0,1,3,1)BLOCK(96,160,2,3,0,0,0,3,1)",
}  # fmt: skip
INT8_STEMS = (
    (Int8Block(112, 112, 3, 32, 16, 1, True, 224, 224), Int8Tile(4, 14, 1, 16, 4, 2, alone=True)),
    (Int8Block(112, 112, 3, 32, 16, 1, True, 224, 224), Int8Tile(56, 14, 1, 16, 56, 4, blocks=2, alone=True)),
)


def kernel_files():
    """(path, options) of every .cu file: those of common.kernels with the options that their launchers use."""
    found = {}
    try:
        from common.kernels import sources
    except ImportError:
        pass
    else:
        for path, options in sources():
            found.setdefault(Path(path), []).append(tuple(options))
        found[blocks_int8.SOURCE] = [blocks_int8.options(*INT8_BLOCK)]
        sliding = blocks_int8.SOURCE.with_name(f"{blocks_int8.SLIDING}.cu")
        found[sliding] = [blocks_int8.options(*block) for block in INT8_SLIDING]
        alone = blocks_int8.SOURCE.with_name(f"{blocks_int8.ALONE}.cu")
        found[alone] = [blocks_int8.options(*block) for block in INT8_ALONE]
        warpgroups = blocks_int8.SOURCE.with_name(f"{blocks_int8.WARPGROUPS}.cu")
        found[warpgroups] = [blocks_int8.options(*block) for block in INT8_WARPGROUPS]
        bands = blocks_int8.SOURCE.with_name(f"{blocks_int8.BANDS}.cu")
        found[bands] = [blocks_int8.options(*block) for block in INT8_BANDS]
        found[stage_int8.SOURCE] = [(*header_options(), *(f"-D{name}={value}" for name, value in INT8_STAGE.items()))]
        stem = blocks_int8.SOURCE.with_name(f"{blocks_int8.STEM}.cu")
        types = ("signed char", "float", "__half")
        found[stem] = [(*blocks_int8.options(*block), f"-Dimage_t={t}") for block in INT8_STEMS for t in types]
        found[few_rows.SOURCE] = [few_rows.options(n, 1280, 1000, t) for n in (1, 32) for t in ("int8", "float16")]
        head = blocks_int8.SOURCE.with_name(f"{head_int8.KERNEL}.cu")
        found[head] = [head_int8.head_options(head_int8.Int8HeadTile(m, 4), 49, 320, 1280) for m in (1, 2)]
    for path in sorted(ROOT.glob("[0-9]*_*/**/*.cu")) + sorted((ROOT / "common").rglob("*.cu")):
        types = ("float", "__half") if "scalar_t" in path.read_text(encoding="utf-8") else ("float",)
        found.setdefault(path, [(f"-Dscalar_t={t}", f"-I{INCLUDE}") for t in types])
    return [(path, options) for path, several in found.items() for options in dict.fromkeys(several)]


def name_of(case):
    path, options = case
    return f"{path.parent.name}/{path.stem}-{'-'.join(o.removeprefix('-D') for o in options if o[:2] == '-D')}"


def of_one_type(cases):
    """Each path with the last of its options; in `make test-all` with all of them."""
    return cases if ALL else list({path: (path, options) for path, options in cases}.values())


@pytest.mark.parametrize("case", of_one_type(kernel_files()[::-1]), ids=name_of)
def test_every_kernel_compiles_for_every_card(case):
    path, options = case
    source = path.read_text()
    able = cards(source, newest="kernels" not in path.parts)  # of those the next test has the newest card's
    for card in able if ALL else able[-1:]:
        log = compile_with_nvrtc(source, card, options)
        assert log is None, f"{path.relative_to(ROOT)} for {card}:\n{log}"


RUNGS = of_one_type([case for case in kernel_files() if "kernels" in case[0].parts])


@pytest.mark.parametrize("case", RUNGS if ALL else RUNGS[::3], ids=name_of)
def test_every_rung_compiles_for_programmatic_launches(case):
    """With wait_for_inputs() as its first statement, for the card that has them."""
    from common.kernels.ladder import waiting

    path, options = case
    assert compile_with_nvrtc(waiting(path.read_text()), "sm_90", options) is None, path.relative_to(ROOT)


# ---- Answers to exercises


@pytest.mark.parametrize("exercise", [one for one in check.find_all() if one.is_cuda], ids=lambda one: one.name)
def test_right_and_wrong_answers_are_cuda(exercise):
    """For one card and one type; in `make test-all` for all, and what an exercise's check refuses is CUDA as well."""
    for answer in [*answers.right(exercise), *answers.wrong(exercise)[: None if ALL else 1]]:
        types = ("float", "__half") if "scalar_t" in answer.text else ("float",)
        for card in cards(answer.text)[: None if ALL else 1]:
            for scalar in types[: None if ALL else 1]:
                log = compile_with_nvrtc(answer.text, card, (f"-Dscalar_t={scalar}", f"-I{INCLUDE}"))
                assert log is None, f"{answer.name} for {card} with {scalar}:\n{log}"


# ---- The kernels of the tests


def texts_of_tests():
    """Every string with a kernel in the tests of features and of random launches, by file and line."""
    for name in ("test_cuda_features.py", "test_cuda_random.py"):
        for node in ast.walk(ast.parse((Path(__file__).parent / name).read_text())):
            text = node.value if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and "__global__" in text and "{" in text and "__global__ void t_" not in text:
                yield pytest.param(text, id=f"{name.removesuffix('.py')}:{node.lineno}")


@pytest.mark.parametrize("source", list(texts_of_tests()))
def test_the_kernels_of_the_tests_are_cuda(source):
    options = ("-Dscalar_t=double", "-DTILE=4", "-DHAS(x)=(x + 1)") if "TILE *" in source else ()
    for card in cards(source)[:1] + cards(source)[-1:]:
        log = compile_with_nvrtc(source, card, options)
        assert log is None, f"for {card}:\n{log}"


def test_math_functions_are_cuda():
    from test_cuda_features import MATH  # made from a table, so it is no literal

    assert compile_with_nvrtc(MATH, "sm_75") is None


def test_templates_are_instantiated():
    source = "template <typename T> __global__ void k(T* y) { y[0] = y[1].no; }"
    assert compile_with_nvrtc(source, "sm_80") is None
    assert "must have class" in compile_with_nvrtc(source, "sm_80", names=["k<float>"])


# ---- What only one of the two would take


BODY = 'extern "C" __global__ void k(float* y, int n, unsigned u, size_t s) {{ {} }}'
REFUSED_BY_BOTH = {
    "an undeclared fixed-width type": "uint32_t a = n; y[0] = a;",
    "a macro of the C library": "y[0] = INFINITY;",
    "a function of the C++ library": "y[0] = std::max(y[0], y[1]);",
    "a store to a built-in variable": "threadIdx.x = 1;",
    "an ambiguous minimum": "y[0] = min(s, n);",
    "a missing declaration": "y[0] = undeclared;",
    "a stream": "cout << y[0];",
    "a shuffle without a mask": "y[0] = __shfl_down(y[0], 1);",
    "a dim3 that is no number": "y[0] = blockDim;",
}


@pytest.mark.parametrize("body", REFUSED_BY_BOTH.values(), ids=REFUSED_BY_BOTH)
def test_what_nvrtc_refuses_the_simulator_refuses(body):
    source = BODY.format(body)
    assert compile_with_nvrtc(source, "sm_80") is not None
    if cuda.backend() == "simulator":
        with pytest.raises(cuda.CompileError, match="line 1:"):
            cuda.RawModule(code=source)


@pytest.mark.parametrize(
    "source",
    [
        BODY.format("y[0] = undeclared;"),
        BODY.format("y[0] = 1") + "\n",
        'extern "C" __global__ void k(float* y) {\n    y[0] = 1;\n',
        '\n#include "nowhere.h"\n',
    ],
    ids=["name", "semicolon", "brace", "header"],
)
def test_nvrtc_errors_are_read_as_the_simulators_are(source):
    from common.cuda.simulator.compiler import readable_errors

    log = compile_with_nvrtc(source, "sm_80")
    text = readable_errors(log, source, r"\.cu\((\d+)\)")
    assert re.search(r"^line \d+: .+\n +\d+ \| ", text, flags=re.M), text


# what the simulator takes although NVRTC does not: a known difference, which these tests keep honest
TAKEN_BY_THE_SIMULATOR_ALONE = {
    "an initialised shared variable": "__shared__ int a = 0; y[0] = a;",
}


@pytest.mark.parametrize("body", TAKEN_BY_THE_SIMULATOR_ALONE.values(), ids=TAKEN_BY_THE_SIMULATOR_ALONE)
def test_known_differences(body):
    source = BODY.format(body)
    assert compile_with_nvrtc(source, "sm_80") is not None
    if cuda.backend() == "simulator":
        cuda.RawModule(code=source)


def test_a_macro_of_one_letter_breaks_nvrtcs_own_headers():
    """So the kernels of this repository call their element type scalar_t, not T."""
    source = 'extern "C" __global__ void k(T* y) { y[0] = 1; }'
    assert "__nv_nvrtc_builtin_header" in compile_with_nvrtc(source, "sm_80", ("-DT=float",))
    if cuda.backend() == "simulator":
        cuda.RawModule(code=source, options=("-DT=float",))
