"""The launch that a file's first comment asks for."""

import pytest

from common.lab.launch_lines import LaunchError, Size, lines, size

SOURCE = """// gemm: a comment with grid: in it
// grid: (N + TILE - 1) / TILE, (M + TILE - 1) / TILE
// block: WIDTH, 256 / WIDTH
#define TILE (2 * WIDTH)  // a comment
constexpr int WIDTH = 16, OTHER = 3;
"""


def test_sizes_are_computed_from_parameters_and_constants():
    assert size(SOURCE, {"M": 33, "N": 64, "K": 5}) == Size((2, 2), (16, 16))
    assert size(SOURCE + "// shared: 4 * TILE * K\n", {"M": 1, "N": 1, "K": 5}) == Size((1, 1), (16, 16), 640)
    assert size("// grid: n\n// block: 32\n// grid: 7", {"n": 3}).grid == (3,), "the first counts"
    assert size("// grid: -(-n // 4)\n// block: 32 % 33", {"n": 5}) == Size((2,), (32,))
    assert lines("  // grid: 1\n// grid : 2") == {}


def test_a_parameter_hides_no_constant_of_the_file_that_it_is_not():
    assert size("// grid: n\n// block: B\n#define B 32\n// #define B 64", {"n": 1}).block == (32,)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("// block: 32", "no line `// grid: …`"),
        ("// grid: 1", "no line `// block: …`, such as `// block: 256`"),
        ("// grid: m\n// block: 1", r"m is no integer parameter or constant \(known: n\)"),
        ("// grid: n +\n// block: 1", "is not an expression of numbers"),
        ("// grid: ceil(n)\n// block: 1", "only whole numbers"),
        ("// grid: 1.5\n// block: 1", "only whole numbers"),
        ("// grid: n / 0\n// block: 1", "divides by zero"),
        ("// grid: 0 * n\n// block: 1", "numbers from 1 on are expected"),
        ("// grid: 1, 1, 1, 1\n// block: 1", "numbers from 1 on are expected"),
        ("// grid: 1\n// block: 1\n// shared: -4", "one number of bytes is expected"),
        ("// grid: A\n// block: 1\n#define A B\n#define B A", "is no integer parameter or constant"),
        ("// grid: __import__('os')\n// block: 1", "only whole numbers"),
    ],
)
def test_what_cannot_be_computed_is_named(source, said):
    with pytest.raises(LaunchError, match=said):
        size(source, {"n": 4})
