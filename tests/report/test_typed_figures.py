"""No figure with a unit is typed without a reason: typed_figures.toml lists all, and this finds one that it lacks."""

import json
import re
import tomllib
from pathlib import Path

import pytest
import typed_figures

ROOT = Path(__file__).resolve().parents[2]
LISTED = tomllib.loads(Path(__file__).with_name("typed_figures.toml").read_text(encoding="utf-8"))["figure"]
REASONS = ("example", "printed", "computed", "training", "paper", "data sheet", "docstring", "once")
ONCE = 7  # how many figures may have been measured once, without a record: those that there are, and no more
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


def test_every_typed_figure_is_listed_with_a_reason():
    listed = {(one["in"], one["text"]) for one in LISTED}
    found = typed_figures.typed(ROOT)
    new = [f"{path}: {text}" for path, text in found if (path, text) not in listed]
    assert not new, "generate it, print it in a cell, or list it in typed_figures.toml with a reason"
    gone = listed - set(found)
    assert not gone, "no longer there: take it out of typed_figures.toml"


def test_reasons_are_known_and_their_tests_exist():
    tests = set(re.findall(r"^def (test_\w+)", "".join(p.read_text() for p in ROOT.glob("tests/**/*.py")), re.M))
    for one in LISTED:
        assert one["why"] in REASONS or one["why"] in tests, one
    assert sum(one["why"] == "once" for one in LISTED) <= ONCE


def outputs(path: Path) -> str:
    """All that a notebook's cells show as text."""
    texts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        for output in cell.get("outputs", []):
            texts.append("".join(output.get("text", "")))
            texts += [
                "".join(v) for kind, v in output.get("data", {}).items() if kind in ("text/plain", "text/markdown")
            ]
    return "\n".join(texts)


def shown(figure: str, text: str) -> bool:
    """Whether a figure, such as "41 %", stands in a text, with or without a space before its unit."""
    number = NUMBER.match(figure)
    assert number is not None
    unit = figure[number.end() :].strip()
    return bool(re.search(rf"(?<![\d.,]){re.escape(number[0])}\s*{re.escape(unit)}(?!\w)", text))


@pytest.mark.parametrize(
    "one",
    [one for one in LISTED if one["why"] == "printed"],
    ids=lambda one: f"{one['in'].split('/')[-1]}: {one['text'][:40]}",
)
def test_what_is_printed_stands_in_an_output(one):
    text = outputs(ROOT / one["in"])
    missing = [m[0] for m in typed_figures.FIGURE.finditer(one["text"]) if not shown(m[0], text)]
    assert not missing, f"stale, or not printed: {one['in']} says {one['text']!r}"


# ---- Tried out


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("It takes 2.3 µs per call.", 1),
        ("It takes 1,300\u00a0µs, or 4 % of all. So 3 ms are gone.", 2),
        ("A tile of 3×3 pixels, 14 × 14 of 64 threads, and 2 × as many", 0),
        ("It is 1.4× as fast.", 1),
        ("copies at 4.3 TB/s and 700 GFLOP/s", 1),
        ("lane / 2 % 8 is no share", 1),  # listed as an example where it stands
        ("sm_90, 128 bytes, 54 kernels, 2 minutes", 0),
    ],
)
def test_what_counts_as_a_figure(line, found):
    assert len(typed_figures.sentences(line)) == found


def test_a_row_of_a_table_has_the_unit_of_its_head():
    table = "| | µs |\n|---|---:|\n| one | 113.9 |\n\n| | count |\n|---|---:|\n| one | 113 |\n"
    found = [s for _, line in typed_figures.lines(Path("a"), table) for s in typed_figures.sentences(line)]
    assert found == ["| one | 113.9 | (in µs: 0 µs)"]


def test_what_is_generated_is_left_out():
    text = "Copies at <!-- generated: peak-copy -->4.3 TB/s<!-- /generated --> here, and\n```\n3 µs\n```\n"
    assert not [s for _, line in typed_figures.lines(Path("a"), text) for s in typed_figures.sentences(line)]


def test_the_list_is_written_anew_and_keeps_reasons(tmp_path):
    listing = tmp_path / "list.toml"
    head = "# what it is\n\n"
    listing.write_text(f'{head}[[figure]]\nin = "old.md"\ntext = "It takes 12 µs."\nwhy = "example"\n')
    (tmp_path / "README.md").write_text("It takes 12 µs. That takes 3 ms.\n")
    assert typed_figures.write(tmp_path, listing) == 1
    assert listing.read_text().startswith(head)
    entries = tomllib.loads(listing.read_text())["figure"]
    assert [(one["in"], one["why"]) for one in entries] == [("README.md", "example"), ("README.md", "?")]


def test_a_new_figure_is_found(tmp_path):
    (tmp_path / "README.md").write_text("A fused block takes 12 µs.\n")
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "a.py").write_text('"""It copies at 4.1 TB/s."""\n')
    (tmp_path / "common" / "b.cu").write_text("// gemm: 180 µs at 4096\n// Moves: all\nvoid f(); // 3 µs\n")
    assert [path for path, _ in typed_figures.typed(tmp_path)] == ["README.md", "common/a.py", "common/b.cu"]
