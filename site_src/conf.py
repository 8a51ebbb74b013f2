"""Sphinx's settings for the site; course_site.py makes the pages and calls Sphinx.

These are the parts of which Jupyter Book 1 consists (Sphinx, MyST-NB, sphinx-book-theme), run by Sphinx itself: mystmd
fetches its theme from the network and has no reference of Python docstrings, and the command jupyter-book puts a YAML
file over this one and holds Sphinx at version 7.
"""

import inspect
import re
import sys
from pathlib import Path

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

sys.path.insert(0, str(Path(__file__).parent))
from course_site import REPOSITORY, ROOT, source_url

project = "MobileNetV2 engine course"
author = "the course's authors"
html_title = project
language = "en"
smartquotes = False  # a quoted word is often code
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.linkcode", "sphinx_copybutton"]

# Notebooks are shown as they are stored
nb_execution_mode = "off"
nb_merge_streams = True
nb_render_markdown_format = "gfm"
myst_enable_extensions = ["dollarmath"]
# a README may skip a level of headings; a cell that is no Python, or only a part of a program, is shown all the same;
# a type's name in a signature may be that of several classes
suppress_warnings = ["myst.header", "misc.highlighting_failure", "ref.python"]

html_theme = "sphinx_book_theme"
html_static_path = ["static"]
html_favicon = "static/icon.svg"
html_css_files = ["course.css"]
html_js_files = ["course.js"]
html_copy_source = False
html_show_sphinx = False
html_use_index = html_domain_indices = False  # the search finds names, too
html_math_renderer = "mathml"
html_theme_options = {
    "repository_url": REPOSITORY,
    "use_repository_button": True,
    "use_download_button": False,
    "use_fullscreen_button": False,
    "navbar_persistent": [],  # the sidebar has the search
    "show_toc_level": 2,
    "logo": {"text": project},
}

autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
python_maximum_signature_line_length = 80
copybutton_selector = "div.cell_input pre, details div.highlight pre"


def linkcode_resolve(domain, info):
    """The address of an object's source, for the link [source]; None if it has none."""
    thing = sys.modules.get(info["module"])
    for name in info["fullname"].split("."):
        thing = getattr(thing, name, None)
    try:
        thing = inspect.unwrap(thing.fget if isinstance(thing, property) else thing)
        path = Path(inspect.getsourcefile(thing)).resolve().relative_to(ROOT)
        return source_url(path, inspect.getsourcelines(thing)[1] or 1)
    except (TypeError, ValueError, OSError):
        return None


def plain_docstring(app, what, name, thing, options, lines):
    """A docstring as reStructuredText. The course's docstrings are plain text: paragraphs, `code`, and tables made of
    spaces, which keep their lines.
    """
    made = []
    for paragraph in re.split(r"\n\s*\n", "\n".join(lines).strip("\n")):
        if re.search(r"^ |\S {2,}\S|^- ", paragraph, re.MULTILINE):
            made += ["::", "", *[f"    {line}" for line in paragraph.split("\n")], ""]
            continue
        for i, piece in enumerate(pieces := re.split(r"`([^`]+)`", " ".join(paragraph.split()))):
            pieces[i] = f"\\ ``{piece}``\\ " if i % 2 else re.sub(r"[\\*|_`]", r"\\\g<0>", piece)
        made += ["".join(pieces), ""]
    lines[:] = made


def as_cuda(app, doctree):
    """Colours of CUDA C++ for a notebook's cells that hold it."""
    for block in doctree.findall(nodes.literal_block):
        if "__global__" in block.astext() and re.match(r"%%|//|#include|__global__", block.astext()):
            block["language"] = "cuda"


def visit_math(translator, node):
    """A formula as MathML, which browsers draw without a program."""
    block = isinstance(node, nodes.math_block)
    text = tex2mathml(node.astext(), as_block=block)
    translator.body.append(f'<div class="math">{text}</div>' if block else text)
    raise nodes.SkipNode


def setup(app):
    """Sphinx calls this with its application."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math, None))
    app.connect("autodoc-process-docstring", plain_docstring)
    app.connect("doctree-read", as_cuda)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
