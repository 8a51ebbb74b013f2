"""cuda.inspect: registers and spills as the assembler says, classes of instructions, lines, loops, displays, errors."""

import re
import shutil
import subprocess
import time
from collections import Counter

import numpy as np
import pytest
from tiers import ALL, seldom

from common import cuda, kernels
from common.cuda import nvrtc
from common.cuda.machine_code import beside, compiled, instructions, mix
from common.cuda.machine_code.inspection import inspect_source

try:
    nvrtc.version()
    compiled.find_disassembler()
except RuntimeError as error:
    pytest.skip(str(error), allow_module_level=True)

DOT = """#include <cuda_fp16.h>
__device__ float twice(float v) { return 2.0f * v; }
extern "C" __global__ void __launch_bounds__(128) dot(const float* __restrict__ x, float* __restrict__ y, int n) {
    __shared__ float s[32 * 4];
    s[threadIdx.x] = x[blockIdx.x * 128 + threadIdx.x];
    __syncthreads();
    float sum = 0.0f;
    #pragma unroll
    for (int k = 0; k < 4; ++k) sum = fmaf(s[threadIdx.x / 32 * 4 + k], sum, 1.0f);
    y[threadIdx.x] = twice(sum);
}
template <class T> __global__ void scale(T* y) { y[threadIdx.x] *= T(3); }
"""


def inspected(source=DOT, name="dot", block=128, options=(), names=(), **more):
    return inspect_source((source, options, names), name, block, **more)


# ---- What the assembler says


def rungs():
    """(source, options, architecture, kernel) of the ladders' files, for the cards that they run on."""
    every = list(kernels.sources())
    # one dtype each, and every second file
    chosen = every if ALL else list({path: (path, options) for path, options in every}.values())[::2]
    for path, options in chosen:
        source = path.read_text(encoding="utf-8")
        cards = [arch for arch in ("sm_75", "sm_80", "sm_90") if int(arch[3:]) >= compiled.required(source)]
        for arch in cards if ALL else cards[-1:]:
            target = "sm_90a" if "wgmma" in source and arch == "sm_90" else arch
            yield pytest.param(source, options, target, id=f"{path.parent.name}/{path.stem}-{arch}-{options[3]}")


ASSEMBLED = re.compile(
    r"Function properties for (\S+)\n.*?(\d+) bytes spill stores.*?Used (\d+) registers([^\n]*)", re.S
)


@pytest.mark.parametrize(("source", "options", "arch"), list(rungs()))
def test_registers_and_shared_memory_of_every_rung_are_what_the_assembler_reports(source, options, arch):
    built = nvrtc.compile_cuda(source, arch, (*options, "-lineinfo", "--ptxas-options=-v"))
    assert built.cubin is not None, built.log
    found = compiled._resources(built.cubin, built.log, compiled._reserved(arch))
    told = ASSEMBLED.findall(built.log)
    if not told and nvrtc.version() >= (13, 0):
        pytest.skip("NVRTC 13 says nothing of registers in its log")
    assert told and len(told) == len(found)
    for name, spilled, registers, rest in told:
        shared = re.search(r"(\d+) bytes smem", rest)
        expected = (int(registers), int(spilled), int(shared[1]) if shared else 0)
        got = found[name]
        assert (got["registers"], got["spill_stores"], got["shared"]) == expected, name


@seldom(6)
def test_the_files_of_another_compiler_are_read_too(tmp_path):
    """nvcc, whose version may be newer than NVRTC's."""
    if shutil.which("nvcc") is None:
        pytest.skip("no nvcc here")
    (tmp_path / "dot.cu").write_text(DOT)
    for arch in ("sm_80", "sm_90"):
        file = tmp_path / f"{arch}.cubin"
        command = ["nvcc", "-cubin", f"-arch={arch}", "-Xptxas", "-v", "-o", str(file), str(tmp_path / "dot.cu")]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"nvcc does not run here: {done.stderr[:200]}")
        found = compiled._resources(file.read_bytes(), done.stderr, compiled._reserved(arch))["dot"]
        _, _, registers, rest = next(one for one in ASSEMBLED.findall(done.stderr) if one[0] == "dot")
        assert found["registers"] == int(registers)
        assert f" {found['shared']} bytes smem" in rest and found["shared"] == 512
        assert found["most_threads"] == 128


@seldom(6)
def test_line_information_leaves_the_instructions_as_they_are():
    """Their kinds and order; NVRTC 13.0 sets one bit of one of them differently."""
    from common.kernels.gemm import ladder

    def opcodes(*more):
        options = ladder.options("register_block", "float32", {})
        elf = compiled._elf(nvrtc.compile_cuda(ladder.source("register_block"), "sm_90", (*options, *more)).cubin)
        words = np.frombuffer(elf.get_section_by_name(".text.gemm").data(), np.uint16)
        return (words[::8] & 0xFFF).tolist()  # an instruction has 16 bytes, the first 12 bits say what it does

    assert len(opcodes()) > 1000 and opcodes() == opcodes("-lineinfo", "--ptxas-options=-v")


def spilling():
    """A kernel whose numbers do not fit into its registers, inspected."""
    body = "".join(f"float v{i} = x[{i} * 1024 + threadIdx.x];" for i in range(64))
    body += "__syncthreads(); y[threadIdx.x] = " + " + ".join(f"v{i} * v{63 - i}" for i in range(64)) + ";"
    head = 'extern "C" __global__ void __launch_bounds__(1024, 2) k(const volatile float* x, float* y) {'
    return inspected(head + body + "}", "k", 1024)


def test_spills_are_counted():
    found = spilling()
    assert found.registers == 32 and found.spills > 100
    assert found.instructions["STL.32"] + found.instructions["STL.64"] + found.instructions["STL.128"] > 0
    assert "bytes spilled" in str(found)
    assert inspected().spills == 0 and "no spills" in str(inspected())


def test_spills_are_read_from_the_machine_code_where_the_log_is_silent():
    found = spilling()
    counted = compiled._in_local_memory(compiled.machine_code(found.origin, "k", "sm_90").text)
    told = found.resources
    assert told.spill_stores > 0
    assert (counted["spill_stores"], counted["spill_loads"]) == (told.spill_stores, told.spill_loads)
    cubin = nvrtc.compile_cuda(DOT, "sm_90").cubin
    assert "spill_stores" not in compiled._resources(cubin, "", 1024)["dot"]
    text = "STL [R1], R2 ;\n LDL.LU.64 R2, [R1] ;\n STL.128 [R1], R4 ;\n LDL.U8 R1, [R1] ;\n LDS R1, [R2] ;"
    assert compiled._in_local_memory(text) == {"stack": 0, "spill_stores": 20, "spill_loads": 9}


# ---- Instructions


@pytest.mark.parametrize(
    ("opcode", "operands", "kind"),
    [
        ("FFMA", "R1, R2, R3, R4", "FFMA"),
        ("LDS", "R29, [R5+0x80]", "LDS.32"),
        ("LDS.U.128", "R4, [R16]", "LDS.128"),
        ("LDG.E.CONSTANT", "R16, desc[UR4][R6.64]", "LDG.32"),
        ("LDG.E.128.CONSTANT", "R16, [R6.64]", "LDG.128"),
        ("LDG.E.U16.CONSTANT", "R16, [R6.64]", "LDG.16"),
        ("LDG.E.LTC128B.64.CONSTANT", "R16, [R6.64]", "LDG.64"),
        ("STG.E.U8", "[R2.64], R5", "STG.8"),
        ("LDGSTS.E.BYPASS.LTC128B.128.ZFILL", "[R7], [R2.64]", "LDGSTS.128"),
        ("LDSM.16.M88.4", "R4, [R2]", "LDSM.x4"),
        ("LDSM.16.MT88.2", "R4, [R2]", "LDSM.x2"),
        ("LDSM.16.M88", "R4, [R2]", "LDSM.x1"),
        ("HMMA.16816.F32", "R4, R8, R2, R4", "HMMA"),
        ("HGMMA.64x128x16.F32", "R24, gdesc[UR8], R24", "HGMMA"),
        ("IMAD.MOV.U32", "R5, RZ, RZ, R6", "MOV"),
        ("IMAD.U32", "R51, RZ, RZ, UR4", "MOV"),
        ("HFMA2.MMA", "R66, -RZ, RZ, 0, 0", "MOV"),
        ("HFMA2.MMA", "R66, R1, R2, R3", "HFMA2"),
        ("CS2R", "R42, SRZ", "MOV"),
        ("HADD2.F32", "R4, -RZ, R4.H0_H0", "HADD2.F32"),
        ("HADD2", "R4, R5, R6", "HADD2"),
        ("F2FP.F16.F32.PACK_AB", "R4, R5, R6", "F2FP"),
        ("IMAD.WIDE", "R2, R5, 0x4, R2", "IMAD"),
        ("BAR.SYNC.DEFER_BLOCKING", "0x0", "BAR"),
        ("LDL.LU.64", "R2, [R1]", "LDL.64"),
    ],
)
def test_classes(opcode, operands, kind):
    assert mix.class_of(opcode, operands) == kind


def test_conversions_are_named_as_in_the_listing_and_calculate_nothing():
    found = kernels.inspect("depthwise", "async_tile", dtype="float16", layout="NHWC")
    for name in ("HADD2.F32", "F2FP"):
        assert found.instructions[name] == sum(name in one.text for one in found.code) > 0
    assert mix.sentence({"FFMA": 1, "HADD2.F32": 2}) == "1 FFMA, 2 others"
    assert mix.math_of({"FFMA": 1, "HADD2.F32": 2, "HADD2": 1}) == 3


def test_the_instructions_of_each_line():
    found = inspected()
    assert found.lines[5]["LDG.32"] == found.lines[5]["STS.32"] == 1
    assert found.lines[6]["BAR"] == 1
    assert found.lines[9]["LDS.128"] == 1 and not found.lines[9]["LDS.32"]  # four loads as written
    assert found.lines[9]["FFMA"] == 4
    assert found.lines[10]["STG.32"] == 1
    assert found.lines[2]["FADD"] + found.lines[2]["FMUL"] == 1  # a function of the source has its own lines
    assert sum(found.instructions.values()) == len(found.code)
    assert found.instructions["LDS.128"] == 1
    assert found.loop is None and found.hot == found.instructions
    assert "LDS.128" in found.sass(9) and "LDG" not in found.sass(9)
    assert len(found.sass().splitlines()) == len(found.code)
    with pytest.raises(ValueError, match="line 1 has no machine code; lines that have: 2–3, 5"):
        found.sass(1)


def test_lines_of_headers_belong_to_the_line_that_calls():
    found = kernels.inspect("pointwise", "split_k", layout="NHWC")
    most = len(found.source.splitlines())
    assert max(found.lines) <= most
    called = [n for n, text in enumerate(found.source.splitlines(), 1) if "multiply<scalar_t>(" in text]
    assert any(found.lines.get(n, {}).get("HMMA") for n in called)


def test_the_hot_loop():
    found = kernels.inspect("gemm", "register_block")
    assert (found.hot["FFMA"], found.hot["LDS.128"], found.hot["LDS.32"]) == (512, 32, 0)
    assert found.registers > 128 and found.occupancy("H200").blocks == 1
    six = kernels.inspect("gemm", "vectorised")
    assert (six.hot["FFMA"], six.hot["LDS.128"]) == (512, 32)
    assert six.registers <= 128 and six.occupancy("H200").warps == 16
    assert kernels.inspect("gemm", "warpgroups", dtype="float16").hot["HGMMA"] == 4


def loops_of(*rows):
    text = "\n".join(
        f"        /*{16 * i:04x}*/ {row} ;" if not row.startswith(".") else row for i, row in enumerate(rows)
    )
    return instructions.parse(text)


def test_loops_inside_of_one_another():
    _, loops = loops_of(
        ".L_x_0:", "FADD R1, R1, R1", ".L_x_1:", "FFMA R1, R1, R1, R1", "FFMA R2, R1, R1, R1",
        "@P0 BRA `(.L_x_1)", "@P1 BRA `(.L_x_0)", "EXIT", ".L_x_2:", "BRA `(.L_x_2)", "NOP",
    )  # fmt: skip
    assert [loop.depth for loop in loops] == [1, 0]
    assert loops[0].instructions == Counter(FFMA=2, BRA=1)
    assert loops[1].instructions == Counter(FADD=1, BRA=1)  # without the loop inside
    assert instructions.hottest(loops) is loops[0]


def test_loops_that_overlap_are_one():
    _, loops = loops_of(
        ".L_x_0:", "FADD R1, R1, R1", ".L_x_1:", "FFMA R1, R1, R1, R1", "@P0 BRA `(.L_x_0)", "FMUL R2, R1, R1",
        "@P1 BRA `(.L_x_1)", "EXIT",
    )  # fmt: skip
    assert [loop.instructions for loop in loops] == [Counter(FADD=1, FFMA=1, FMUL=1, BRA=2)]


def test_padding_is_no_code():
    made, _ = loops_of("EXIT", ".L_x_2:", "BRA `(.L_x_2)", "NOP", "NOP")
    assert [one.kind for one in made] == ["EXIT"]


# ---- Displays


def test_displays():
    found = kernels.inspect("gemm", "shared_tiles")
    text, page = str(found), found._repr_html_()
    assert "gemm, rung 3" not in page and "__global__" in page  # from the kernel's declaration on
    for words in (
        "32 FFMA, 8 LDS.128, 32 LDS.32",
        "in the loop",
        "32 registers per thread, no spills",
        "64 of 64 warps",
    ):
        assert words in text.replace("\n", " ") and words in page
    assert all(len(line) <= 95 for line in text.splitlines())
    assert page.count("<div") == page.count("</div")
    assert "in the hot loop" in page and "local memory" not in page.partition("<pre")[0]
    assert repr(found.sass(41)) == str(found.sass(41))


@pytest.mark.skipif(cuda.backend() == "gpu", reason="traces need the simulator's arrays")
def test_beside_a_trace():
    import numpy as np

    kernel = cuda.RawModule(DOT).get_function("dot")
    found = cuda.inspect(kernel, 128)
    x, y = cuda.zeros(128), cuda.zeros(128)
    report = cuda.trace(kernel, (1,), (128,), (x, y, np.int32(128)))
    both = found.beside(report)
    (load,) = both.at(9)
    assert load.access == "shared load" and load.words == "4 loads as written, 1 executed" and not load.same
    assert {row.words for row in both.rows if row.line != 9} == {"as written"}
    assert "4 loads as written" in both._repr_html_() and "1 LDS.128" in str(both)
    with pytest.raises(ValueError, match="the same source"):
        kernels.inspect("add", "naive").beside(report)


@pytest.mark.parametrize(
    ("sizes", "kinds", "words"),
    [
        ({4}, {"LDS.32": 3}, "as written"),
        ({4}, {"LDS.64": 3}, "2 loads as written, 1 executed"),
        ({16}, {"LDS.32": 4}, "1 load as written, 4 executed"),
        ({4}, {"LDS.128": 8, "LDS.32": 32}, "4 loads as written, 1 executed, by 8 of the 40 instructions"),
        ({2}, {"LDS.128": 1, "LDS.32": 1}, "2 or 8 loads as written, 1 executed, by 2 of the 2 instructions"),
        ({16}, {"LDSM.x4": 2}, "as written"),
        ({4, 16}, {"LDS.128": 2, "LDS.32": 1}, "as written"),
        ({4, 16}, {"LDS.64": 1}, "other widths"),
        ({4}, {}, "this line has no load of its own: the compiler has removed it or moved it to another line"),
    ],
)
def test_differences_in_words(sizes, kinds, words):
    assert beside._difference("load", sizes, Counter(kinds)) == (words == "as written", words)


# ---- Architectures, templates, errors, time


def test_templates_are_named_as_in_the_source():
    found = inspected(name="scale<float>", names=("scale<float>", "scale<double>"))
    assert found.instructions["STG.32"] == 1
    assert inspected(name="scale<double>", names=("scale<float>", "scale<double>")).instructions["STG.64"] == 1


def test_other_cards_are_compiled_for():
    found = inspected()
    assert {card: found.occupancy(card).card.arch for card in ("T4", "A100", "L4", "H200")} == {
        "T4": "sm_75", "A100": "sm_80", "L4": "sm_89", "H200": "sm_90",
    }  # fmt: skip
    assert inspected(arch="sm_80").occupancy("A100").blocks == 16  # of 128 threads


def test_errors():
    with pytest.raises(ValueError, match="arch must be one of sm_75, "):
        inspected(arch="sm_10")
    with pytest.raises(ValueError, match='"requires: sm_80": it cannot be compiled for sm_75'):
        inspected("// requires: sm_80\n" + DOT, arch="sm_75")
    with pytest.raises(ValueError, match="129 threads; __launch_bounds__ allow 128"):
        inspected(block=129)
    with pytest.raises(ValueError, match="at most 1024 threads, got 2048"):
        inspected(block=(64, 32))
    with pytest.raises(ValueError, match="positive numbers"):
        inspected(block=0)
    with pytest.raises(ValueError, match="there is no kernel 'dott'"):
        inspected(name="dott")
    with pytest.raises(ValueError, match="card must be one of T4, A100, L4, H200"):
        inspected().occupancy("H100")
    with pytest.raises(cuda.CompileError, match="line 1:"):
        inspected('extern "C" __global__ void k() { nothing; }', "k")


def test_a_missing_program_is_named(monkeypatch):
    monkeypatch.setattr(compiled.importlib.metadata, "files", lambda name: None)
    monkeypatch.setattr(compiled.shutil, "which", lambda name: None)
    compiled.find_disassembler.cache_clear()
    try:
        with pytest.raises(compiled.NoDisassembler, match="pip install nvidia-cuda-nvdisasm"):
            compiled.find_disassembler()
    finally:
        monkeypatch.undo()
        compiled.find_disassembler.cache_clear()


def test_the_second_time_it_is_quick():
    source = DOT + f"// {time.time_ns()}\n"
    inspected(source)
    compiled._machine_code.cache_clear()  # as in another process: the file is still there
    began = time.perf_counter()
    inspected(source)
    assert time.perf_counter() - began < 0.5


# ---- Rungs


def test_rungs_are_inspected_as_their_launchers_launch_them():
    found = kernels.inspect("gemm", "tensor_cores", dtype="float16")
    assert (found.block, found.shared_mem) == (128, 98304)
    assert kernels.inspect("gemm", "warpgroups", dtype="float16").arch == "sm_90a"
    a, b = cuda.zeros((64, 64)), cuda.zeros((64, 64))
    assert kernels.inspect("gemm", "naive", a, b, transpose_b=True).registers > 0
    assert kernels.inspect("gemm", "naive", arch="sm_75").arch == "sm_75"
    for operator, variant, match in (
        ("gem", "naive", "operator must be one of"), ("gemm", "naiv", "variant must be one of"),
        ("conv2d", "im2col_gemm", "no kernel of its own: it launches im2col/"), ("pad", "naive", "give the arguments"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=match):
            kernels.inspect(operator, variant)
    with pytest.raises(ValueError, match="sm_75"):
        kernels.inspect("gemm", "three_tf32", arch="sm_75")


def test_pretending_changes_no_other_answer():
    from common.cuda.device import as_if

    before = cuda.compute_capability(), cuda.multiprocessors(), cuda.shared_memory()
    with as_if(75, 40, 65536):
        assert (cuda.compute_capability(), cuda.multiprocessors(), cuda.shared_memory()) == (75, 40, 65536)
    assert (cuda.compute_capability(), cuda.multiprocessors(), cuda.shared_memory()) == before


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize(
    ("operator", "variant", "instruction"),
    [
        ("pointwise_int8", "tensor_cores", "IMMA"),
        ("conv2d_int8", "tensor_cores", "IMMA"),
        ("depthwise_int8", "dp4a", "IDP"),
        ("global_avg_pool_int8", "words", "IDP"),
    ],
)
def test_int8_products_are_one_instruction_each_without_spills(operator, variant, instruction, arch):
    """mma_s8 is IMMA, __dp4a is IDP, and both are shown and counted as arithmetic."""
    found = kernels.inspect(operator, variant, arch=arch)
    assert found.instructions[instruction] >= 4 and found.spills == 0
    assert mix.rank(instruction) < len(mix.SHOWN) and mix.math_of({instruction: 1}) >= 4
