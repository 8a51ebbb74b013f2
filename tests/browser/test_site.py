"""The site, built and opened in Chromium: each page at three widths in both themes, links, pictures, search, terms."""

import functools
import http.server
import importlib.util
import os
import sys
import threading
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest
from tiers import long

from common.lab import links

pytestmark = long  # a minute of a processor to build the site, two to open its pages

ROOT = Path(__file__).resolve().parents[2]
WIDTHS = (390, 900, 1600)
THEMES = ("light", "dark")
SECONDS = 180  # for `make site`

# What one page holds. Pictures are loaded now, wherever the reader would have to scroll to.
FOUND = """async () => {
    for (const picture of document.images) picture.loading = "eager";
    await Promise.all([...document.images].map(picture => picture.decode().catch(() => null)));
    return {
        links: [...document.links].map(link => link.href),
        ids: [...document.querySelectorAll("[id]")].map(element => element.id),
        lost: [...document.images].filter(picture => !picture.naturalWidth).map(picture => picture.src.slice(0, 200)),
        next: document.querySelector("a.right-next")?.href,
        previous: document.querySelector("a.left-prev")?.href,
        silent: [...document.images].filter(picture => !picture.alt).map(picture => picture.src.slice(0, 200)),
    };
}"""
# By how many pixels something is wider than the page, and what it is
WIDER = """() => {
    const article = document.querySelector(".bd-article-container") ?? document.documentElement;
    return [document.documentElement, article]
        .filter(box => box.scrollWidth > box.clientWidth + 1)
        .map(box => `${box.className || box.tagName}: ${box.scrollWidth} > ${box.clientWidth}`);
}"""


class Files(http.server.SimpleHTTPRequestHandler):
    """A folder's files, without a line in the log for each."""

    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def course_site():
    pytest.importorskip("sphinx_book_theme", reason="what builds the site is not installed: make setup")
    spec = importlib.util.spec_from_file_location("course_site", ROOT / "site_src" / "course_site.py")
    sys.modules["course_site"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def site(course_site, browser, tmp_path_factory):
    """(the folder of the built site, its address)."""
    folder = tmp_path_factory.mktemp("site")
    before = os.times()
    assert course_site.build(folder) == 0
    after = os.times()  # of the processors: others may use them, too
    assert after.user - before.user + after.children_user - before.children_user < SECONDS
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Files, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield folder, f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def opened(browser, theme, complaints, width=1600):
    """A new page of the browser that knows no other host, in a theme; what goes wrong in it is noted."""
    context = browser.new_context(viewport={"width": width, "height": 900})
    context.route("**/*", lambda route: route.continue_() if "127.0.0.1" in route.request.url else route.abort())
    page = context.new_page()
    page.add_init_script(f"localStorage.mode = localStorage.theme = '{theme}'")
    page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    left = "net::ERR_ABORTED"  # the next page was opened before this one had its icon
    page.on("requestfailed", lambda it: complaints.append(f"not loaded: {it.url}") if it.failure != left else None)
    return page


@pytest.fixture(scope="module")
def visited(browser, site):
    """{page: what it holds}, and complaints, after a visit to each page in each theme and width."""
    folder, address = site
    found, complaints = {}, []
    for theme in THEMES:
        said: list[str] = []
        page = opened(browser, theme, said)
        for path in sorted(path for path in folder.rglob("*.html") if "_static" not in path.parts):
            name = path.relative_to(folder).as_posix()
            page.set_viewport_size({"width": WIDTHS[-1], "height": 900})
            page.goto(address + name)
            if page.evaluate("document.documentElement.dataset.theme") != theme:
                said.append(f"is not in the {theme} theme")
            found[name] = page.evaluate(FOUND)
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 900})
                said += [f"{width} px, {wider}" for wider in page.evaluate(WIDER)]
            complaints += [f"{name}, {theme}: {text}" for text in said]
            said.clear()
        page.context.close()
    return found, complaints


def test_every_page_opens_without_an_error_and_fits_at_every_width_in_both_themes(visited):
    found, complaints = visited
    assert len(found) > len(links.notebooks())
    assert not complaints, "\n".join(complaints)


def test_every_picture_is_there_and_has_a_text(visited):
    found, _ = visited
    assert [(name, page["lost"]) for name, page in found.items() if page["lost"]] == []
    assert [(name, page["silent"]) for name, page in found.items() if page["silent"]] == []


def test_every_link_inside_leads_to_a_page_and_a_place_in_it(visited, site):
    folder, address = site
    found, lost = visited[0], []
    for name, page in found.items():
        for link in {link for link in page["links"] if link.startswith(address)}:
            target, place = urldefrag(link.removeprefix(address))
            target = unquote(target).partition("?")[0] or "index.html"
            if target not in found and not (folder / target).is_file():
                lost.append(f"{name}: {target}")
            elif place and target in found and unquote(place) not in found[target]["ids"]:
                lost.append(f"{name}: {target}#{place}")
    assert lost == []


def test_every_link_to_the_repository_leads_to_a_file(visited, course_site):
    address, seen = course_site.REPOSITORY, 0
    for name, page in visited[0].items():
        for link in [link for link in page["links"] if link.startswith(f"{address}/")]:
            kind, revision, path = link.removeprefix(f"{address}/").split("/", 2)
            file, _, line = path.partition("#L")
            assert revision == course_site.REVISION and kind == ("tree" if (ROOT / file).is_dir() else "blob"), name
            assert (ROOT / file).exists(), f"{name}: {link}"
            assert not line or len((ROOT / file).read_text().splitlines()) >= int(line)
            seen += 1
    assert seen > 100


def test_next_leads_through_all_notebooks_in_order_and_previous_back(visited, site):
    found, address = visited[0], site[1]
    seen = ["index.html"]
    while following := found[seen[-1]]["next"]:
        name = following.removeprefix(address)
        assert name not in seen and found[name]["previous"].removeprefix(address) in (seen[-1], "")
        seen.append(name)
    wanted = [path.relative_to(ROOT).with_suffix(".html").as_posix() for path in links.notebooks()]
    assert [name for name in seen if name in wanted] == wanted


@pytest.fixture
def page(browser, site):
    complaints: list[str] = []
    page = opened(browser, "light", complaints)
    page.set_default_timeout(20_000)
    yield page
    page.context.close()
    assert complaints == []


def test_the_search_finds_a_term(page, site):
    page.goto(site[1])
    page.keyboard.press("Control+k")
    page.keyboard.insert_text("coalescing")
    page.keyboard.press("Enter")
    results = page.locator("#search-results li a")
    results.first.wait_for()
    page.locator("#search-results li a[href*='1_seeing_memory.html']").first.wait_for()
    assert results.count() > 3


def test_a_term_shows_its_meaning_under_the_mouse_and_for_the_keyboard(page, site, course_site):
    page.goto(f"{site[1]}04_kernels/1_seeing_memory.html")
    term = page.locator("a.term[href$='#coalescing']")
    shown = page.locator(".tooltip")
    for look, away in ((term.hover, lambda: page.mouse.move(0, 0)), (term.focus, term.blur)):
        look()
        shown.wait_for()
        assert shown.inner_text() == course_site.meanings()["coalescing"]
        away()
        shown.wait_for(state="detached")
    term.click()
    page.wait_for_url("**/GLOSSARY.html#coalescing")


def test_a_table_that_is_wider_than_a_phone_says_so(page, site):
    said = """() => [...document.querySelectorAll(".pst-scrollable-table-container")].map(
        box => [box.scrollWidth > box.clientWidth + 1, getComputedStyle(box, "::before").content.includes("Scroll")])"""
    page.goto(f"{site[1]}GLOSSARY.html")
    for width in (390, 1600):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_timeout(300)
        assert page.evaluate(said) == [[width == 390, width == 390]]


def test_hints_and_solutions_are_folded_until_asked_for(page, site):
    page.goto(f"{site[1]}01_topology/1_rebuild_from_the_table.html")
    folds = page.locator("article details")
    assert folds.count() > 20 and not any(fold.get_attribute("open") is not None for fold in folds.all())
    solution = page.locator("details", has=page.locator("summary", has_text="Solution")).first
    code = solution.locator("pre").first
    assert not code.is_visible()
    solution.locator("summary").first.click()
    code.wait_for()
    assert "rounded = max(divisor" in code.inner_text()


def test_the_theme_changes_with_the_button(page, site):
    page.goto(site[1])
    for theme in ("dark", "light"):
        page.locator("button.theme-switch-button:visible").first.click()
        page.locator(f"button.theme-change-button[data-mode='{theme}']:visible").first.click()
        page.locator(f"html[data-theme='{theme}']").wait_for()


def test_the_landing_page_shows_what_the_demo_printed(page, site):
    page.goto(site[1])
    text = page.locator("article").inner_text()
    assert "predictions are ONNX Runtime's" in text and "class  501" in text
    for picture in ("whole_way.svg", "digits.png"):
        page.locator(f"article img[src$='{picture}']").wait_for()
    for number in range(1, 4):
        page.locator(f"article a[href='tracks.html#track-{number}']").wait_for()


def test_the_reference_has_shapes_errors_and_sources(page, site):
    page.goto(f"{site[1]}api/kernels.html")
    entry = page.locator("dl", has=page.locator("dt[id='common.kernels.conv2d']"))
    assert "ValueError" in entry.inner_text()
    assert "common/kernels/conv2d/__init__.py#L" in entry.locator("a.external").first.get_attribute("href")


@pytest.mark.parametrize("name", ["index.html", "GLOSSARY.html", "04_kernels/5_gemm.html", "api/cuda.html"])
@pytest.mark.parametrize("theme", THEMES)
def test_text_can_be_read(browser, site, name, theme):
    from jupyterlab_driver import CONTRASTS

    page = opened(browser, theme, [])
    page.goto(site[1] + name)
    contrasts = page.locator("article").first.evaluate(CONTRASTS)
    low = {text[:60]: ratio for text, ratio in contrasts if ratio < 4.5 and text != "#"}  # "#": a heading's own link
    page.context.close()
    assert low == {}
