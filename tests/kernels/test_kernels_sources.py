"""The .cu files: a ladder whose rungs can be laid side by side."""

import ast
import re
from pathlib import Path

import pytest
from tiers import long

from common import cuda, kernels
from common.cuda.signature import declarations, without_comments
from common.kernels import ladder

FILES = sorted({path for path, _ in kernels.sources()})
names = pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
operators = pytest.mark.parametrize("operator", kernels.OPERATORS)


def test_every_cu_file_is_a_rung():
    assert sorted(Path(kernels.__file__).parent.rglob("*.cu")) == FILES


@operators
def test_rungs_are_numbered_from_one_in_order(operator):
    rungs = [path.stem.split("_", 1) for path in FILES if path.parent.name == operator]
    by_number = sorted((int(number), name) for number, name in rungs)
    assert [number for number, _ in by_number] == list(range(1, len(rungs) + 1))
    of_files = [name for name in kernels.variants(operator) if not is_composed(operator, name)]
    assert [name for _, name in by_number] == of_files


def is_composed(operator, variant):
    """Whether a rung launches other operators, and has no file."""
    try:
        kernels.source(operator, variant)
    except ValueError:
        return True
    return False


@names
def test_the_first_line_says_which_rung_it_is_and_its_idea(path):
    number, name = path.stem.split("_", 1)
    first = path.read_text().splitlines()[0]
    assert re.match(rf'// {path.parent.name}, rung {number} "{name}": \S', first), first


@names
def test_the_header_says_what_it_moves_gains_and_costs(path):
    header = path.read_text().split("#include")[0].split("extern")[0]
    assert re.findall(r"^// (Moves|Gains|Costs) ", header, flags=re.M) == ["Moves", "Gains", "Costs"]


@names
def test_a_file_defines_one_kernel_called_as_the_operator(path):
    declared = declarations(path.read_text())
    kernel = declared[path.parent.name]
    assert kernel.extern_c and not kernel.template


@operators
def test_all_rungs_have_the_same_parameters(operator):
    """Names, order and types, so that the diff between two rungs is the lesson. A tensor map stands for its matrix."""
    types = {"scalar_t": "float", "acc_t": "float", "out_t": "signed char"}
    rungs = [
        declarations(path.read_text(), types)[operator].parameters for path in FILES if path.parent.name == operator
    ]
    matrices = {p.name: p.type for parameters in rungs for p in parameters if p.type}
    lists = {
        tuple((p.name, *((p.type, p.pointer) if p.type else (matrices[p.name], True))) for p in parameters)
        for parameters in rungs
    }
    assert len(lists) == 1


@names
def test_lines_fit_on_a_screen(path):
    assert max(map(len, path.read_text().splitlines())) <= 150


@names
def test_floats_are_split_by_the_headers_alone(path):
    """One form of 3xTF32 and one of pairs of halves, whose errors test_tf32x3.py and test_pair_of_halves.py measure."""
    text = without_comments(path.read_text())
    assert "ffffe000" not in text and "to_tf32(" not in text and "__half2float(__float2half" not in text


@names
def test_the_text_is_cuda_alone(path):
    """No word of the simulator's: what stands there is what a GPU compiles."""
    assert "SIM_" not in path.read_text() and "__CUDA_SIMULATOR__" not in without_comments(path.read_text())


def test_sources_come_with_options_for_every_dtype_that_the_rung_takes():
    types = {"float32": "float", "float16": "__half", "float64": "double", "int8": "signed char"}
    for path in FILES:
        options = [o for p, o in kernels.sources() if p == path]
        operator, variant = path.parent.name, path.stem.split("_", 1)[1]
        taken = [types[dtype] for dtype in types if variant in kernels.variants(operator, dtype)]
        assert taken and len(options) == len(taken)
        assert {next(one for one in o if one.startswith("-Dscalar_t=")) for o in options} == {
            f"-Dscalar_t={name}" for name in taken
        }


@long  # NVRTC compiles them all as well
@names
def test_every_file_compiles_with_those_options(path):
    for source, options in kernels.sources():
        if source == path:
            kernel = cuda.RawKernel(source.read_text(), path.parent.name, options=options)
            declared = declarations(source.read_text())[path.parent.name].parameters
            assert [one.name for one in kernel.parameters] == [one.name for one in declared]


# a time or a rate, or how many times as fast something is
MEASURED = re.compile(
    r"\d[\d.,]*\s?(?:µs|us|ns|ms|[GT]B/s|[GT]FLOPS?(?:/s)?|(?:nano|micro|milli)seconds?)\b"
    r"|\d[\d.,]*\s?(?:%|×|times)\s(?:as fast|as slow|faster|slower)"
    r"|\d[\d.,]* per (?:ns|µs|ms)\b"
)
ROOT = Path(kernels.__file__).parent.parent.parent
GPU_SOURCES = sorted(
    path
    for place in ("common", "0*")
    for pattern in ("*.cu", "*.h")
    for folder in ROOT.glob(place)
    for path in folder.rglob(pattern)
    if "simulator" not in path.parts
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("330 TFLOP/s, where cuBLAS has 690", True), ("takes 2.6 µs", True), ("at 4.3 TB/s", True),
        ("1.5 times as fast", True), ("9 % faster on an H200", True), ("starts 1.6 per ns", True),
        ("reads 16 bytes per access, 2.25 times fewer", False), ("3 times the rate of FMA units", False),
        ("two thirds of their peak; 22 blocks of 256 use sm_90", False),
    ],
)  # fmt: skip
def test_what_counts_as_a_measured_figure(text, found):
    assert bool(MEASURED.search(text)) == found


def test_no_kernel_states_a_measured_figure():
    """Records change, comments do not: measured figures stand in generated texts, not in kernels and launchers."""
    found = []
    for path in GPU_SOURCES:
        text = re.sub(r"\n\s*//\s*", " ", path.read_text(encoding="utf-8"))
        found += [f"{path.relative_to(ROOT)}: {hit[0]}" for hit in MEASURED.finditer(text)]
    for package in ("kernels", "optimize"):
        for path in (ROOT / "common" / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                    words = " ".join((ast.get_docstring(node) or "").split())
                    found += [f"{path.relative_to(ROOT)}: {hit[0]}" for hit in MEASURED.finditer(words)]
    assert len(GPU_SOURCES) > 100 and found == []


def test_a_changed_header_is_another_compilation(tmp_path, monkeypatch):
    """CuPy's cache of compiled kernels looks at the source and the options alone."""

    def options():
        ladder._digest.cache_clear()
        return [option for option in ladder.header_options() if not option.startswith("-I")]

    before = options()
    for path in ladder.INCLUDE.glob("*.h"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(ladder, "INCLUDE", tmp_path)
    assert options() == before
    with open(tmp_path / "vec.h", "a") as file:
        file.write("// more\n")
    assert options() != before
    monkeypatch.undo()
    assert options() == before
