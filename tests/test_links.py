"""Every link leads somewhere, in JupyterLab as on GitHub; the last cell of each notebook leads on and back."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from common.lab import glossary, links
from common.report import generated, results

ROOT = results.course()
LINK = re.compile(r'\]\((?P<markdown>[^()\s]*(?:\([^()\s]*\)[^()\s]*)*)[^()]*\)|(?:src|href)="(?P<html>[^"]+)"')
CODE = re.compile(r"^```.*?^```|(?<!`)`[^`\n]+`(?!`)", re.MULTILINE | re.DOTALL)


def targets(markdown: str) -> list[str]:
    """The relative links of a text; what stands in code is none."""
    found = [match["markdown"] or match["html"] for match in LINK.finditer(CODE.sub("code", markdown))]
    return [target for target in found if target and not re.match(r"[a-z]+:", target)]


def texts(path: Path) -> list[str]:
    content = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return [content]
    return [generated.source(cell) for cell in json.loads(content)["cells"] if cell["cell_type"] == "markdown"]


def complaints(path: Path) -> list[str]:
    """What is wrong with a file's links."""
    found = []
    for target in [target for text in texts(path) for target in targets(text)]:
        name, _, anchor = target.partition("#")
        file = (path.parent / name).resolve()
        if anchor and file == ROOT / glossary.NAME:
            if f'<a id="{anchor}"></a>' not in file.read_text(encoding="utf-8"):
                found.append(f"{target}: {glossary.NAME} has no such row")
        elif anchor:  # GitHub's anchors of headings are not JupyterLab's
            found.append(f"{target}: name the section in words instead of #{anchor}")
        elif file.is_dir():
            found.append(f"{target}: a folder, which JupyterLab does not open: link to a file in it")
        elif not file.is_file():
            found.append(f"{target}: there is no such file")
    return found


def tracked() -> list[Path]:
    listing = subprocess.run(["git", "ls-files", "*.md", "*.ipynb"], cwd=ROOT, capture_output=True, text=True)
    if listing.returncode != 0:  # no git, or no repository: a downloaded archive
        return sorted([*ROOT.glob("*.md"), *ROOT.glob("[0-9][0-9]_*/**/*.md"), *links.notebooks()])
    return [path for name in listing.stdout.splitlines() if (path := ROOT / name).exists()]


@pytest.mark.parametrize("path", tracked(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_to_a_file(path):
    assert complaints(path) == []


def test_each_kind_of_broken_link_is_seen(tmp_path):
    chapter = tmp_path / "01_x"
    (chapter / "exercises" / "e").mkdir(parents=True)
    (chapter / "a.py").touch()
    readme = chapter / "README.md"
    readme.write_text(
        "[fine](a.py) [far](https://a.b/c#d) `[code](nowhere)` [folder](exercises) ![gone](gone.png)\n"
        "[part](README.md#part) <img src='x'> <a href=\"lost.py\">\n```c++\n[i](j)\n```\n"
    )
    assert [complaint.split(":")[0] for complaint in complaints(readme)] == [
        "exercises",
        "gone.png",
        "README.md#part",
        "lost.py",
    ]
    hints = chapter / "exercises" / "hints.md"
    hints.write_text("[fine](../a.py)")
    assert complaints(hints) == []


# ---- Navigation


def test_the_navigation_is_not_stale():
    assert links.run(check=True), "python -m common generate writes it anew"


def test_no_other_cell_says_what_comes_next():
    paths = links.notebooks()
    assert paths
    for path in paths:
        for text in texts(path):
            assert not re.search(r"^(- )?Next: ", text, re.MULTILINE), path


@pytest.fixture
def course(tmp_path):
    """Two chapters, one with eleven notebooks."""
    for name in [*(f"01_x/{number}_n.ipynb" for number in range(11)), "02_y/1_n.ipynb"]:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        cell = {"cell_type": "markdown", "id": "a", "metadata": {}, "source": [f"# 1. T{path.stem}: more\n", "text"]}
        path.write_text(generated.dumped({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    return tmp_path


def last_cell(path):
    return generated.source(json.loads(path.read_text())["cells"][-1])


def test_notebooks_in_the_order_of_their_numbers(course):
    names = [path.relative_to(course).as_posix() for path in links.notebooks(course)]
    assert names == [*(f"01_x/{number}_n.ipynb" for number in range(11)), "02_y/1_n.ipynb"]


def test_a_notebook_with_a_letter_is_read_after_the_one_of_its_number(course):
    first = (course / "01_x/9_n.ipynb").read_text()
    (course / "01_x/9b_n.ipynb").write_text(first.replace("# 1. T9_n", "# 9b. T9b"))
    assert links.run(check=False, root=course)
    names = [path.name for path in links.notebooks(course)]
    assert names[8:12] == ["8_n.ipynb", "9_n.ipynb", "9b_n.ipynb", "10_n.ipynb"]
    assert last_cell(course / "01_x/9b_n.ipynb") == (
        "← [9 T9_n](9_n.ipynb) · [chapter 01](README.md) · [10 T10_n](10_n.ipynb) →"
    )
    assert last_cell(course / "01_x/10_n.ipynb").startswith("← [9b T9b](9b_n.ipynb)")


def test_an_appendix_is_read_after_another_chapter(course, monkeypatch):
    monkeypatch.setattr(links, "APPENDICES", {"appendix_a.ipynb": "02_y"})
    first = course / "01_x/1_n.ipynb"
    (course / "01_x/appendix_a.ipynb").write_text(first.read_text().replace("# 1. T1_n", "# Appendix. A"))
    assert links.run(check=False, root=course)
    assert [path.name for path in links.notebooks(course)][-2:] == ["1_n.ipynb", "appendix_a.ipynb"]
    assert last_cell(course / "01_x/appendix_a.ipynb") == (
        "← [chapter 02, 1 T1_n](../02_y/1_n.ipynb) · [chapter 01](README.md)"
    )
    assert last_cell(course / "02_y/1_n.ipynb").endswith("[chapter 01, Appendix. A](../01_x/appendix_a.ipynb) →")


def test_lines_within_a_chapter_across_chapters_and_at_the_ends(course):
    assert links.run(check=False, root=course)
    assert last_cell(course / "01_x/0_n.ipynb") == "[chapter 01](README.md) · [1 T1_n](1_n.ipynb) →"
    assert last_cell(course / "01_x/9_n.ipynb") == (
        "← [8 T8_n](8_n.ipynb) · [chapter 01](README.md) · [10 T10_n](10_n.ipynb) →"
    )
    assert last_cell(course / "01_x/10_n.ipynb") == (
        "← [9 T9_n](9_n.ipynb) · [chapter 01](README.md) · [chapter 02, 1 T1_n](../02_y/1_n.ipynb) →"
    )
    assert (
        last_cell(course / "02_y/1_n.ipynb") == "← [chapter 01, 10 T10_n](../01_x/10_n.ipynb) · [chapter 02](README.md)"
    )


def test_a_new_notebook_makes_its_neighbours_stale(course, capsys):
    links.run(check=False, root=course)
    (course / "01_x/3_n.ipynb").unlink()
    before = {path: path.read_text() for path in links.notebooks(course)}
    capsys.readouterr()
    assert not links.run(check=True, root=course)
    assert capsys.readouterr().out.splitlines() == [
        f"01_x/{number}_n.ipynb: the navigation is stale: python -m common generate" for number in (2, 4)
    ]
    assert before == {path: path.read_text() for path in before}
    assert links.run(check=False, root=course) and links.run(check=True, root=course)
    assert all(len(json.loads(path.read_text())["cells"]) == 2 for path in links.notebooks(course))


def test_a_cell_behind_the_navigation_comes_before_it(course):
    links.run(check=False, root=course)
    path = course / "01_x/1_n.ipynb"
    notebook = json.loads(path.read_text())
    notebook["cells"].append(notebook["cells"][0] | {"id": "b", "source": ["appended"]})
    path.write_text(generated.dumped(notebook))
    assert not links.run(check=True, root=course)
    assert links.run(check=False, root=course)
    cells = json.loads(path.read_text())["cells"]
    assert [generated.source(cell) for cell in cells[1:-1]] == ["appended"] and len(cells) == 3


def test_a_notebook_without_a_title_is_named(course, capsys):
    path = course / "01_x/1_n.ipynb"
    path.write_text(path.read_text().replace("# 1. T", "T"))
    assert not links.run(check=False, root=course)
    assert "01_x/0_n.ipynb: 1_n.ipynb: the first cell does not begin with '# ' and a title" in capsys.readouterr().out
