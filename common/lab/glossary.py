"""GLOSSARY.md: each bold term of the course, what it means, and the notebook that introduces it.

A text writes a term in bold where it defines it: `**warp**`. `python -m common generate` turns the first `**warp**` of
each notebook and README into a link to the term's row, `[**warp**](../GLOSSARY.md#warp)`, and rewrites the table: in
alphabetical order, with an anchor per row and the column "introduced in". A new row needs only the first two columns.
The first column may hold several forms of a term, separated by commas: `| fuse, fusion | … |`; plurals and verb forms
are found without being listed.

The anchors are `<a id="…">`. GitHub and JupyterLab both keep them, and both scroll to them; they make different anchors
from headings.

Bold text that is no term is one of FIXED, a number, a whole sentence, or the beginning of a paragraph.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..report import generated
from ..report.results import course

NAME = "GLOSSARY.md"
HEAD = ("| term | meaning | introduced in |", "|---|---|---|")
# Compared without a full stop or colon at the end.
FIXED = frozenset(
    (
        "You will be able to",
        "Afterwards you can",
        "You need",
        "Time",
        "Hardware",
        "How to work",
        "Help",
        "Predict",
        "Write",
        "Check",
        "Explain",
        "Count",
        "Measure",
        "Trace",
        "Follow",
        "Find the mistake",
        "Record",
        "Mended",
        "Your turn",
        "Your engine",
    )
)

_CODE = re.compile(r"^(```|~~~).*?^\1|(?<!`)(`+)(?!`).+?(?<!`)\2(?!`)|<!--.*?-->", re.MULTILINE | re.DOTALL)
_BOLD = re.compile(r"\*\*(?P<text>\S(?:[^*]|\*(?!\*))*?)\*\*")
_LINKED = re.compile(rf"\[(\*\*[^*\n]+\*\*)\]\((?:\.\./)*{re.escape(NAME)}#[\w-]+\)")
_ROW = re.compile(r"^\|(?P<term>[^|]+)\|(?P<meaning>(?:[^|\\]|\\.)+)\|(?:(?P<place>[^|]*)\|)?\s*$")
_ANCHOR = re.compile(r'<a id="[^"]*"></a>')
_STARTS = re.compile(r"(?:^|\n)[ \t]*(?:[-*] |\d+\. |\| ?|> )?$")


@dataclass(frozen=True)
class Entry:
    """A row of the glossary."""

    forms: tuple[str, ...]  # of the term; the first one names the anchor
    meaning: str

    @property
    def anchor(self) -> str:
        """The row's anchor: "warp-scheduler"."""
        return re.sub(r"[^a-z0-9]+", "-", self.forms[0].lower()).strip("-")


@dataclass(frozen=True)
class Bold:
    """A piece of bold text."""

    text: str
    start: int  # of its two asterisks in the Markdown
    end: int
    leads: bool  # at the beginning of a paragraph, a list item or a table's row


# ---- The glossary's own text


def parse(text: str) -> tuple[str, list[Entry], list[Entry]]:
    """(the text above the table, the rows, the rows left out) of GLOSSARY.md.

    Of several rows of a term, those with an anchor come first. Rows without an anchor that repeat a term are left out:
    two branches may have added it, and .gitattributes keeps the rows of both.
    Raises ValueError for a row that is no row, a term with two meanings, or two terms with one anchor.
    """
    above, _, table = text.partition("| term |")
    rows = []
    for line in table.splitlines()[1:]:
        if not line.strip() or line.startswith("| term |") or re.fullmatch(r"[|\s:-]+", line):
            continue
        found = _ROW.match(line)
        if found is None:
            raise ValueError(f"{NAME}: no row of a table: {line}")
        names = tuple(form.strip() for form in _ANCHOR.sub("", found["term"]).split(","))
        rows.append((_ANCHOR.search(line) is None, Entry(names, found["meaning"].strip())))
    entries: dict[str, Entry] = {}
    by_form: dict[str, tuple[bool, Entry]] = {}
    dropped = []
    for new, entry in sorted(rows, key=lambda row: row[0]):
        others = [by_form[form.casefold()] for form in entry.forms if form.casefold() in by_form]
        if any(other == entry for _, other in others):
            continue
        if others and new and not all(also_new for also_new, _ in others):
            dropped.append(entry)
            continue
        if others:
            raise ValueError(f"{NAME}: {entry.forms[0]} has two rows")
        if entry.anchor in entries:
            raise ValueError(f"{NAME}: {entry.forms[0]} and {entries[entry.anchor].forms[0]} have the same anchor")
        entries[entry.anchor] = entry
        by_form |= {form.casefold(): (new, entry) for form in entry.forms}
    return above, sorted(entries.values(), key=lambda entry: (entry.forms[0].casefold(), entry.forms)), dropped


def render(above: str, entries: list[Entry], places: dict[str, str]) -> str:
    """GLOSSARY.md. places: by anchor, the Markdown of the last column."""
    rows = [
        f'| <a id="{entry.anchor}"></a>{", ".join(entry.forms)} | {entry.meaning} | {places.get(entry.anchor, "")} |'
        for entry in entries
    ]
    return above + "\n".join([*HEAD, *rows]) + "\n"


def _inflected(form: str) -> Iterator[str]:
    yield from (form, f"{form}s", f"{form}es", f"{form}ed", f"{form}ing", f"{form}d")
    yield f"{form[:-1]}ies" if form.endswith("y") else f"{form[:-1]}ing"


def forms(entries: list[Entry]) -> dict[str, Entry]:
    """The entry of each form of each term, in lower case, with plurals and verb forms."""
    found = {inflected: entry for entry in entries for form in entry.forms for inflected in _inflected(form.casefold())}
    return found | {form.casefold(): entry for entry in entries for form in entry.forms}


# ---- Bold text


def bold(markdown: str) -> list[Bold]:
    """The bold text outside code, in order."""
    text = _CODE.sub(lambda code: re.sub(r"[^\n]", "x", code[0]), markdown)
    found = []
    for match in _BOLD.finditer(text):
        inside = markdown[match.start("text") : match.end("text")]
        leads = _STARTS.search(text[: match.start()].removesuffix("[")) is not None
        found.append(Bold(" ".join(inside.split()), match.start(), match.end(), leads))
    return found


def _bare(text: str) -> str:
    return re.sub(r" \d+$", "", text.rstrip(".:,").strip("`").casefold())  # "milestone 1" is a milestone


def no_term(one: Bold) -> bool:
    """Whether bold text needs no row: FIXED, a number with marks, a sentence, or the first words of a paragraph."""
    text = one.text
    if text.rstrip(".:") in FIXED or re.fullmatch(r"[\d.,–%×/ -]+[†‡§]*|Exercise \d+\.?", text):
        return True
    long, upper = len(text.split()) > 2, re.match(r"[a-zß-ÿ]", text) is None
    if text.endswith((".", "?", "!", ":")):
        return long or (one.leads and upper)
    return one.leads and upper and (long or re.match(r"\d+\. ", text) is not None)


def unlinked(markdown: str) -> str:
    """Markdown without links from bold terms to the glossary."""
    return _LINKED.sub(r"\1", markdown)


def linked(texts: list[str], known: dict[str, Entry], up: str) -> list[str]:
    """A file's Markdown texts with a link at the first use of each term. up: the way to the root, "" or "../"."""
    seen: set[str] = set()
    result = []
    for text in map(unlinked, texts):
        pieces, after = [], 0
        for one in bold(text):
            entry = known.get(_bare(one.text))
            if entry is None or _bare(one.text) in seen or text[one.start - 1 : one.start] == "[":
                continue
            seen.add(_bare(one.text))
            pieces += [text[after : one.start], f"[{text[one.start : one.end]}]({up}{NAME}#{entry.anchor})"]
            after = one.end
        result.append("".join([*pieces, text[after:]]))
    return result


# ---- Files


def files(root: Path) -> list[Path]:
    """Notebooks in the course's order, those without a number (appendices), READMEs, pages of results, and docs/.

    A term's place is the first of these that has it in bold.
    """
    notebooks = sorted(root.glob("[0-9][0-9]_*/*.ipynb"), key=_position)
    return [
        *notebooks,
        *sorted(root.glob("[0-9][0-9]_*/README.md")),
        *root.glob("README.md"),
        *sorted(root.glob("[0-9][0-9]_*/RESULTS.md")),
        *sorted(root.glob("docs/*.md")),
    ]


def _position(path: Path) -> tuple[bool, str, int, str]:
    number = re.match(r"\d+", path.name)
    return number is None, path.parent.name, int(number[0]) if number else 0, path.name


def texts(path: Path) -> list[str]:
    """The Markdown of a file: its whole text, or a notebook's Markdown cells, without those of folded hints."""
    content = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return [content]
    return [generated.source(cell) for cell in json.loads(content)["cells"] if _read(cell)]


def _read(cell: dict) -> bool:
    hints = any(tag.startswith("hints-") for tag in cell["metadata"].get("tags", []))
    return cell["cell_type"] == "markdown" and not hints


def _with_links(path: Path, root: Path, known: dict[str, Entry]) -> str:
    """A file's content with its links. Raises ValueError for a notebook that could not be written back as it was."""
    before = path.read_text(encoding="utf-8")
    up = "../" * (len(path.relative_to(root).parts) - 1)
    if path.suffix != ".ipynb":
        return linked([before], known, up)[0]
    notebook, cells = generated.markdown_cells(path, before)
    cells = [cell for cell in cells if _read(cell)]
    for cell, text in zip(cells, linked([generated.source(cell) for cell in cells], known, up), strict=True):
        if text != generated.source(cell):
            generated.set_source(cell, text)
    return generated.dumped(notebook)


def _label(path: Path, root: Path) -> str:
    """The link in the column "introduced in": "[03/0](…)" for a notebook with a number."""
    where = path.relative_to(root)
    number = re.match(r"\d+", path.name)
    chapter = ""
    if len(where.parts) > 1:
        chapter = where.parts[0][:2] if where.parts[0][:1].isdigit() else where.parts[0]
    name = f"{chapter}/{number[0]}" if number else f"{chapter} {path.stem.split('_')[0]}".strip()
    return f"[{name}]({where.as_posix()})"


def complaints(root: Path) -> list[str]:
    """Bold text that is neither a term nor allowed without one, and terms that nothing introduces."""
    _, entries, _ = parse((root / NAME).read_text(encoding="utf-8"))
    known, used, found = forms(entries), set(), []
    for path in files(root):
        for one in [one for text in texts(path) for one in bold(text)]:
            entry = known.get(_bare(one.text))
            if entry is not None:
                used.add(entry)
            elif not no_term(one):
                found.append(f"{path.relative_to(root).as_posix()}: **{one.text}** is not in {NAME}")
    return found + [f"{NAME}: no text introduces **{entry.forms[0]}**" for entry in entries if entry not in used]


def run(check: bool, root: Path | None = None) -> bool:
    """Rewrite stale links and the glossary, or with `check` only list them. Returns True if none is left."""
    root, fine = root or course(), True
    if not (root / NAME).exists():
        return True
    before = (root / NAME).read_text(encoding="utf-8")
    try:
        above, entries, dropped = parse(before)
    except ValueError as error:
        print(error)
        return False
    for left in dropped:
        print(f"{NAME}: {left.forms[0]} has a row already; left out: {left.meaning}")
    known, places, new = forms(entries), dict[str, str](), dict[Path, str]()
    for path in files(root):
        for one in [one for text in texts(path) for one in bold(text)]:
            entry = known.get(_bare(one.text))
            if entry is not None:
                places.setdefault(entry.anchor, _label(path, root))
        try:
            new[path] = _with_links(path, root, known)
        except ValueError as error:
            print(f"{path.relative_to(root)}: {error}")
            fine = False
    new[root / NAME] = render(above, entries, places)
    for path, after in new.items():
        if after == path.read_text(encoding="utf-8"):
            continue
        where = path.relative_to(root)
        if check:
            print(f"{where}: links to the glossary are stale: python -m common generate")
            fine = False
        else:
            path.write_text(after, encoding="utf-8", newline="\n")
            print(f"{where}: written")
    return fine
