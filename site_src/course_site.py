"""The course as a website: `make site` writes it to site/, without a network, in about a minute.

    python site_src/course_site.py [FOLDER]

Pages are made in a temporary folder from the course's own files, then Sphinx (conf.py) turns them into HTML:

- every notebook with its stored outputs (nothing in it runs), with the exercises' solutions folded below them;
- every README, the other Markdown files of the repository's root and of docs/, the glossary;
- the landing page, index.md.in filled with the README's first paragraph and the output of `python -m common demo`,
  which runs here on the simulator;
- a page per track, and one per package of `common`.

The contents in the sidebar are made from the same list of files, so a new notebook has its page without an entry
anywhere. Links to files that are no pages lead to the repository: SITE_REPOSITORY, with SITE_REVISION, a branch or a
commit.
"""

import html
import importlib
import json
import os
import pkgutil
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from string import Template
from typing import Any

import common
from common.check import copies, exercises
from common.lab import glossary, links, markup, online
from common.report import generated, tables

SOURCES = Path(__file__).resolve().parent
ROOT = SOURCES.parent
REPOSITORY = os.environ.get("SITE_REPOSITORY", online.repository()).rstrip("/")
REVISION = os.environ.get("SITE_REVISION", "main")

_LINK = re.compile(r'(?P<before>\]\(|(?:href|src)=")(?P<target>[^)\s"]+)')
_TERM = re.compile(rf"\[(?P<text>[^\]\n]+)\]\((?P<page>(?:\.\./)*{Path(glossary.NAME).stem})\.md#(?P<anchor>[\w-]+)\)")
_BADGE = re.compile(r"\[!(\[[^\]]*\])\(https?://[^)]*\)\](\([^)]*\))")  # a link whose text is a picture of another host
_HEADING = re.compile(r"^# (.+)$", re.MULTILINE)
PICTURES = ("*.svg", "docs/*.svg", "[0-9][0-9]_*/*.svg")  # those that pages show
NO_API = ("__main__", "commands")  # the command line, which the README describes


# ---- What becomes a page


def chapters(root: Path = ROOT) -> dict[str, list[Path]]:
    """The notebooks of each chapter's folder, relative to the root, in the order in which they are read."""
    found: dict[str, list[Path]] = {}
    for path in links.notebooks(root):
        found.setdefault(links.read_with(path), []).append(path.relative_to(root))
    return found


def texts(root: Path = ROOT) -> list[Path]:
    """The Markdown files that become pages, relative to the root: its own, docs/, READMEs, pages of results."""
    patterns = "*.md", "docs/*.md", "[0-9][0-9]_*/**/README.md", "[0-9][0-9]_*/RESULTS.md"
    found = [path for pattern in patterns for path in sorted(root.glob(pattern))]
    return [path.relative_to(root) for path in found]


def packages() -> list[str]:
    """The modules and packages right inside `common` that the API reference describes."""
    return [module.name for module in pkgutil.iter_modules(common.__path__) if module.name not in NO_API]


# ---- Markdown


def source_url(path: Path, line: int | None = None) -> str:
    """The address of a file or folder of the repository; path: relative to its root."""
    kind = "tree" if (ROOT / path).is_dir() else "blob"
    return f"{REPOSITORY}/{kind}/{REVISION}/{path.as_posix()}" + (f"#L{line}" if line else "")


def meanings() -> dict[str, str]:
    """What each term of the glossary means, as plain text, by anchor."""
    _, entries, _ = glossary.parse((ROOT / glossary.NAME).read_text(encoding="utf-8"))
    return {entry.anchor: re.sub(r"[`*]|\]\([^)]*\)|\[", "", entry.meaning) for entry in entries}


def for_site(markdown: str, where: Path, pages: set[Path], terms: dict[str, str]) -> str:
    """The Markdown of the file `where` for the site.

    Links to files that are no pages lead to the repository; pictures stay, but for those of other hosts, which a site
    read without a network cannot show: such a badge becomes a link with its text, on a line of its own. Links to the
    glossary become HTML links with the term's meaning, which static/course.js shows under the mouse and for the
    keyboard. KeyError for an unknown term.
    """

    def moved(link: re.Match[str]) -> str:
        path, _, anchor = link["target"].partition("#")
        if not path or re.match(r"[a-z]+:|/", path):
            return link[0]
        inside = Path(os.path.normpath(where.parent / path))
        is_page = inside in pages or inside.suffix in (".svg", ".png")
        if is_page or not (ROOT / inside).exists():  # the latter: code that looks like a link
            return link[0]
        return link["before"] + source_url(inside) + (f"#{anchor}" if anchor else "")

    def with_meaning(term: re.Match[str]) -> str:
        meaning = html.escape(terms[term["anchor"]]).replace("|", "&#124;")
        return f'<a class="term" href="{term["page"]}.html#{term["anchor"]}" title="{meaning}">{term["text"]}</a>'

    return _TERM.sub(with_meaning, _LINK.sub(moved, _BADGE.sub(r"\1\2  ", markdown)))


def folded(summary: str, text: str) -> str:
    """Markdown that is folded until the reader clicks on the summary."""
    return f"<details>\n<summary>{summary}</summary>\n\n{text}\n\n</details>"


def toctree(pages: list[str], caption: str = "", hidden: bool = True) -> str:
    """A table of contents for Sphinx; pages: "/name" from the site's root without a suffix, or "title </name>"."""
    options = [f":caption: {caption}"] * bool(caption) + [":hidden:"] * hidden
    return "\n".join(["```{toctree}", *options, "", *pages, "```"])


# ---- Notebooks


def _has_hints(cells: list[dict[str, Any]], index: int) -> bool:
    """Whether one of the next cells holds the folded hints and the solution of the cell at the index."""
    for cell in cells[index + 1 : index + 4]:
        if any(tag.startswith("hints-") for tag in cell["metadata"].get("tags", [])):
            return True
        if markup.BEGIN in generated.source(cell):
            return False
    return False


def notebook(content: dict[str, Any], where: Path, pages: set[Path], terms: dict[str, str]) -> dict[str, Any]:
    """A notebook for the site: its outputs stay, solutions are folded, code that reveals an answer is folded too.

    The links to the notebooks before and after it go: every page of the site has them.
    """
    known = {exercise.name: exercise for exercise in exercises.find_all(ROOT)}
    cells, made = content["cells"], []
    for index, cell in enumerate(cells):
        tags, text = cell["metadata"].get("tags", []), generated.source(cell)
        if links.TAG in tags:
            continue
        if cell["cell_type"] == "markdown":
            made.append(cell | {"source": for_site(text, where, pages, terms)})
            continue
        exercise = next((known[tag[9:]] for tag in tags if tag.startswith("exercise-")), None)
        if exercise is not None or markup.BEGIN in text:
            made.append(cell | {"source": copies.stub(text, exercise)})
            if not _has_hints(cells, index):
                cuda = markup.is_cuda(text)
                code = f"```{'c++' if cuda else 'python'}\n{markup.plain(text, cuda).strip()}\n```"
                solution = folded("Solution", code)
                made.append({"cell_type": "markdown", "id": f"solution-{index}", "metadata": {}, "source": solution})
        elif "check.reveal(" in text:
            made.append(cell | {"metadata": cell["metadata"] | {"tags": [*tags, "hide-input"]}})
        else:
            made.append(cell)
    return content | {"cells": made}


# ---- Pages that have no file


def _titles() -> dict[str, str]:
    """The title of each chapter's README, by folder."""
    found = {}
    for folder in chapters():
        heading = _HEADING.search((ROOT / folder / "README.md").read_text(encoding="utf-8"))
        assert heading is not None, f"{folder}/README.md has no line '# …'"
        found[folder] = heading[1]
    return found


def chapter_table() -> str:
    """A table of the chapters: a link to each, and the first paragraph of its README."""
    rows = []
    for folder, title in _titles().items():
        text = (ROOT / folder / "README.md").read_text(encoding="utf-8")
        paragraph = " ".join(text.partition("\n\n")[2].partition("\n\n")[0].split())
        from_root = re.sub(r"\]\((?=[^)]+\))", f"]({folder}/", paragraph).replace(f"({folder}/../", "(")
        rows.append([f"[{title}]({folder}/README.md)", from_root])
    return tables.markdown(["chapter", "what you do in it"], rows, 2)


def _taken() -> dict[str, list[Path]]:
    """The notebooks of each track, in the order in which they are read."""
    every = [path for paths in chapters().values() for path in paths]
    found = {
        name: [path for path in every if _number(path) in chosen.get(path.parts[0][:2], ())]
        for name, chosen in tables.TRACKS.items()
    }
    return found | {"everything": every}


def _number(path: Path) -> int | None:
    first = path.name.split("_")[0]
    return int(first) if first.isdigit() else None


def _hours(paths: list[Path]) -> str:
    return f"{sum(tables.minutes(ROOT / path) for path in paths) / 60:.0f}"


def track_table() -> str:
    """A table of the tracks, with a link to each."""
    rows = [
        [f"[{name}](tracks.md#track-{number})", str(len(paths)), _hours(paths)]
        for number, (name, paths) in enumerate(_taken().items(), 1)
    ]
    return tables.markdown(["track", "notebooks", "hours"], rows, 1)


def tracks_page() -> str:
    """The three tracks: the notebooks of each, with links and minutes."""
    parts = ["# Three tracks through the course"]
    for number, (name, paths) in enumerate(_taken().items(), 1):
        parts.append(f"(track-{number})=\n## {name[0].upper()}{name[1:]}")
        parts.append(f"{len(paths)} notebooks, {_hours(paths)} hours.")
        for folder, title in _titles().items():
            inside = [path for path in paths if links.read_with(path) == folder]
            rows = [f"- [{links.title(ROOT / path)}]({path}), {tables.minutes(ROOT / path)} minutes" for path in inside]
            parts += [f"**{title}**", "\n".join(rows)] if rows else []
    return "\n\n".join(parts) + "\n"


def api_page(name: str) -> str:
    """The reference of a package or module of `common`: what it exports, then its modules with what else they have."""
    module = importlib.import_module(f"common.{name}")
    exported = list(getattr(module, "__all__", []))
    options = "   :members:\n" + ("   :imported-members:\n" if exported else "")
    parts = [f"# common.{name}", f"```{{eval-rst}}\n.. automodule:: common.{name}\n{options}```"]
    for inner in pkgutil.iter_modules(getattr(module, "__path__", [])):
        if inner.name in (*exported, "reference", "own_rung") or inner.name.startswith("_"):
            continue  # a module that has the name of the operator in it; code that a learner would write
        full = f"common.{name}.{inner.name}"
        left = f"   :exclude-members: {', '.join(exported)}\n" if exported else ""
        parts.append(f"## {full}\n\n```{{eval-rst}}\n.. automodule:: {full}\n   :members:\n{left}```")
    return "\n\n".join(parts) + "\n"


def api_index() -> str:
    """The start of the API reference: a line per package, from its docstring."""
    rows = []
    for name in packages():
        doc = importlib.import_module(f"common.{name}").__doc__ or ""
        rows.append([f"[common.{name}]({name}.md)", doc.strip().splitlines()[0]])
    head = "# API reference of `common`\n\nShapes, dtypes, units and errors are stated. “[source]” leads to the code."
    table = tables.markdown(["package", "what it is for"], rows, 2)
    return f"{head}\n\n{table}\n\n" + toctree([f"/api/{name}" for name in packages()])


def demo(folder: Path) -> str:
    """What `python -m common demo` prints on the simulator; it writes digits.png to the folder."""
    command = [sys.executable, "-m", "common", "demo", "--out", str(folder)]
    settings = {"COURSE_DEVICE": "simulator", "COLUMNS": "100", "NO_COLOR": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=os.environ | settings, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout.replace(str(folder), "out").strip()


def alternative_text() -> str:
    """The alternative text of the picture of the whole way, from the course's page."""
    found = re.search(
        r"!\[([^\]]+)\]\(\.\./whole_way\.svg\)", (ROOT / "docs" / "course.md").read_text(encoding="utf-8")
    )
    assert found is not None, "docs/course.md does not show whole_way.svg"
    return found[1]


def introduction() -> str:
    """The first paragraph of the README, which the landing page begins with as well."""
    return (ROOT / "README.md").read_text(encoding="utf-8").split("\n\n")[1]


def contents() -> str:
    """The table of contents of the whole site."""
    named = ("README.md", glossary.NAME)
    others = [
        f"/{path.with_suffix('').as_posix()}"
        for path in texts()
        if path.parent in (Path(), Path("docs")) and path.name not in named
    ]
    return "\n\n".join(
        [
            toctree(["Set-up and results </README>", "Three tracks </tracks>"], "Start"),
            toctree([f"/{folder}/README" for folder in chapters()], "Chapters"),
            toctree(["/GLOSSARY", "/api/index", *others], "Reference"),
        ]
    )


def write_pages(folder: Path) -> None:
    """Write everything that Sphinx reads to an empty folder."""
    pages, terms = {*texts(), *(path for paths in chapters().values() for path in paths)}, meanings()
    made = {path: for_site((ROOT / path).read_text(encoding="utf-8"), path, pages, terms) for path in texts()}
    for chapter, notebooks in chapters().items():
        others = [path for path in texts() if path.parts[0] == chapter and path != Path(chapter, "README.md")]
        inside = [f"/{path.with_suffix('').as_posix()}" for path in [*notebooks, *others]]
        made[Path(chapter, "README.md")] += "\n" + toctree(inside) + "\n"
        for path in notebooks:
            content = json.loads((ROOT / path).read_text(encoding="utf-8"))
            made[path] = json.dumps(notebook(content, path, pages, terms))
    index = Template((SOURCES / "index.md.in").read_text(encoding="utf-8"))
    parts = {"tracks": track_table(), "chapters": chapter_table(), "way": alternative_text(), "contents": contents()}
    parts["introduction"] = introduction()
    made[Path("index.md")] = for_site(index.substitute(parts, demo=demo(folder)), Path("index.md"), pages, terms)
    made[Path("tracks.md")] = tracks_page()
    made[Path("api/index.md")] = api_index()
    made |= {Path(f"api/{name}.md"): api_page(name) for name in packages()}
    for path, text in made.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    for picture in [path for place in PICTURES for path in ROOT.glob(place)]:
        shutil.copy(picture, folder / picture.relative_to(ROOT))


def build(out: Path) -> int:
    """Build the site into the folder `out`, which is made anew. Returns Sphinx's exit status; a warning is an error.

    Sphinx writes to a temporary folder, as MyST-NB leaves a folder beside its output; an older site stays if it fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        pages, doctrees, made = Path(folder, "pages"), Path(folder, "doctrees"), Path(folder, "site")
        pages.mkdir()
        write_pages(pages)
        command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going", "--jobs", "2"]
        command += ["-c", str(SOURCES), "-d", str(doctrees), str(pages), str(made)]
        status = subprocess.run(command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}).returncode
        if status == 0:
            shutil.rmtree(out, ignore_errors=True)
            shutil.move(made, out)
        return status


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "site"
    status = build(target)
    if status == 0:
        print(f"{target}: built. To look at it: {Path(sys.executable).name} -m http.server -d {target}")
    sys.exit(status)
