"""What the site is made from: every notebook has a page, solutions are folded, links lead to pages or files.

tests/browser/test_site.py builds the site and opens it.
"""

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from tiers import seldom

from common.lab import links

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def course_site():
    if "course_site" not in sys.modules:
        spec = importlib.util.spec_from_file_location("course_site", ROOT / "site_src" / "course_site.py")
        sys.modules["course_site"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules["course_site"])
    return sys.modules["course_site"]


@pytest.fixture
def for_site(course_site):
    """The transformation of Markdown of 01_topology/README.md, for two pages and one term."""
    pages = {Path(name) for name in ("README.md", "GLOSSARY.md", "01_topology/README.md")}
    return lambda text: course_site.for_site(text, Path("01_topology/README.md"), pages, {"warp": 'one "warp" | two'})


def names(root, path):
    """The name of a page: where it is below a folder, without a suffix."""
    return path.relative_to(root).with_suffix("").as_posix()


def test_every_notebook_and_readme_is_in_the_contents(course_site, monkeypatch, tmp_path):
    monkeypatch.setattr(course_site, "demo", lambda folder: "")
    course_site.write_pages(tmp_path)
    entry = re.compile(r"^(?:.* <)?/([\w/]+)>?$", re.MULTILINE)
    listed: list[str] = []
    for page in tmp_path.rglob("*.md"):
        for tree in re.findall(r"^```{toctree}$(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL):
            listed += entry.findall(tree)
    made = [
        path.relative_to(tmp_path).with_suffix("").as_posix()
        for path in tmp_path.rglob("*.*")
        if path.suffix in (".md", ".ipynb")
    ]
    assert sorted([*listed, "index"]) == sorted(made)
    tracked = {path.relative_to(ROOT).with_suffix("").as_posix() for path in ROOT.glob("[0-9][0-9]_*/*.ipynb")}
    assert tracked and tracked <= set(listed)
    in_order = [path.with_suffix("").as_posix() for paths in course_site.chapters().values() for path in paths]
    assert in_order == [path.relative_to(ROOT).with_suffix("").as_posix() for path in links.notebooks()]
    for path in tmp_path.rglob("*.ipynb"):
        assert "BEGIN SOLUTION" not in path.read_text()
    shown = re.compile(r'(?:!\[[^\]]*\]\(|src=")(?!https?:|data:)([^)\s"#]+\.(?:svg|png))')
    lost = [
        (page.relative_to(tmp_path), picture)
        for page in tmp_path.rglob("*.md")
        for picture in shown.findall(page.read_text())
        if picture != "digits.png" and not (page.parent / picture).is_file()  # which the demo writes
    ]
    assert "In this course" in course_site.introduction()
    assert course_site.introduction() in (tmp_path / "index.md").read_text()
    assert lost == [] and (tmp_path / "docs" / "architecture.svg").is_file()


def test_links_to_files_lead_to_the_repository(course_site, for_site):
    address = f"{course_site.REPOSITORY}/blob/{course_site.REVISION}/"
    assert for_site("[a](../Makefile) [b](exercises/hints.md)") == (
        f"[a]({address}Makefile) [b]({address}01_topology/exercises/hints.md)"
    )
    assert for_site("[a](exercises)") == f"[a]({address.replace('blob', 'tree')}01_topology/exercises)"
    for same in ("[a](../README.md#x)", "![a](../whole_way.svg)", "[a](https://b.c/d)", "[a](#b)", "`a[i](b)`"):
        assert for_site(same) == same


def test_a_badge_of_another_host_becomes_its_text(for_site):
    badge = "[![Open it](https://elsewhere.example/badge.svg)](https://elsewhere.example/it)"
    assert for_site(f"{badge}\n") == "[Open it](https://elsewhere.example/it)  \n"
    assert for_site("[![a picture](here.svg)](https://elsewhere.example/it)").startswith("[![a picture](here.svg)]")


def test_a_term_brings_its_meaning(for_site):
    link = '<a class="term" href="../GLOSSARY.html#warp" title="one &quot;warp&quot; &#124; two">**warp**</a>'
    assert for_site("a [**warp**](../GLOSSARY.md#warp)") == f"a {link}"
    with pytest.raises(KeyError, match="wrap"):
        for_site("[**wrap**](../GLOSSARY.md#wrap)")


def test_a_notebook_has_stubs_with_folded_solutions_and_its_outputs(course_site):
    output = {"output_type": "stream", "name": "stdout", "text": ["3\n"]}
    write = "def f(a):\n    # BEGIN SOLUTION\n    # write: the sum\n    return a + 2\n    # END SOLUTION\nprint(f(1))"

    def code(text, *tags):
        return {"cell_type": "code", "metadata": {"tags": list(tags)}, "source": text, "outputs": [output]}

    def prose(text, *tags):
        return {"cell_type": "markdown", "metadata": {"tags": list(tags)}, "source": text}

    cells = [code(write), prose("text"), code(write), prose("<details>", "hints-f")]
    cells += [code('check.reveal("a", 1, {})'), prose("← [a](b)", links.TAG)]
    made = course_site.notebook({"cells": cells, "nbformat": 4}, Path("01_x/1_y.ipynb"), set(), {})["cells"]
    assert [cell["cell_type"] for cell in made] == ["code", "markdown", "markdown", "code", "markdown", "code"]
    assert 'raise NotImplementedError("write: the sum")' in made[0]["source"] and made[0]["outputs"] == [output]
    assert made[1]["source"].startswith(
        "<details>\n<summary>Solution</summary>\n\n```python\ndef f(a):\n    return a + 2"
    )
    assert made[4]["source"] == "<details>"
    assert made[5]["metadata"]["tags"] == ["hide-input"]
    assert "outputs" in cells[0] and cells[0]["source"] == write  # the source is as it was


def test_a_track_has_the_hours_of_the_courses_page(course_site):
    page = course_site.tracks_page()
    found = re.findall(r"^(\d+) notebooks, (\d+) hours\.$", page, re.MULTILINE)
    assert len(found) == 3
    for _, hours in found:
        assert f"| {hours} |" in (ROOT / "docs" / "course.md").read_text()


@pytest.fixture
def settings(course_site):
    """conf.py's names, as Sphinx reads them."""
    config = pytest.importorskip("sphinx.config", reason="Sphinx is not installed: make setup")
    return config.eval_config_file(ROOT / "site_src" / "conf.py", None)


@seldom(4)
def test_a_build_leaves_nothing_beside_the_site_and_a_failed_one_the_older_site(
    settings, course_site, monkeypatch, tmp_path
):
    def written(text):
        cell = {"cell_type": "markdown", "metadata": {}, "source": f"# Title\n\n{text}"}
        page = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
        monkeypatch.setattr(course_site, "write_pages", lambda to: (to / "index.ipynb").write_text(json.dumps(page)))
        return course_site.build(tmp_path / "site")

    assert written("first") == 0
    monkeypatch.setattr(course_site.subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=1))
    assert written("second") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["site"]
    assert "first" in (tmp_path / "site" / "index.html").read_text()


def test_the_settings_name_what_is_there_and_run_no_notebook(settings):
    assert settings["nb_execution_mode"] == "off"
    for extension in settings["extensions"]:
        assert importlib.util.find_spec(extension), extension
    for name in [*settings["html_css_files"], *settings["html_js_files"]]:
        assert (ROOT / "site_src" / "static" / name).is_file()
    assert (ROOT / "site_src" / settings["html_favicon"]).is_file()


def test_a_docstring_keeps_its_tables(settings):
    lines = ["The `a` of *b*, a_", "wrapped.", "", "    code(1)", "", "x    an array", "y    another"]
    settings["plain_docstring"](None, "", "", None, None, lines)
    text = "The \\ ``a``\\  of \\*b\\*, a\\_ wrapped."
    assert lines == [text, "", "::", "", "        code(1)", "", "::", "", "    x    an array", "    y    another", ""]


def test_source_links_lead_to_the_line(settings, course_site):
    address = settings["linkcode_resolve"]("py", {"module": "common.lab.links", "fullname": "title"})
    path, _, line = address.removeprefix(f"{course_site.REPOSITORY}/blob/{course_site.REVISION}/").partition("#L")
    assert (ROOT / path).read_text().splitlines()[int(line) - 1].startswith("def title(")
