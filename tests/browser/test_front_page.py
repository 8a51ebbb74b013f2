"""README.md as a reader sees it first: two screens and a picture, in a window as wide as a laptop's."""

from pathlib import Path

import matplotlib
from markdown_it import MarkdownIt

from common.report import results

SCREEN = 900  # pixels; the fixture's window is 1280 × 900
BADGE = '<svg xmlns="http://www.w3.org/2000/svg" width="110" height="20"/>'
FONT = "fonts/ttf/DejaVuSans.ttf"  # the same on every machine, and wider than those that readers have
# GitHub's look, as far as it decides on heights: a column of 830 of the 1280 pixels, 16 px, lines of 24
STYLE = """@font-face {font-family: front; src: url(http://front.test/front.ttf)}
body {font: 16px/1.5 front; margin: 0} article {width: 830px}
h1 {font-size: 32px; line-height: 1.25; margin: 0 0 16px; padding-bottom: 10px} p, ul, pre, table {margin: 0 0 16px}
h2 {font-size: 24px; line-height: 1.25; margin: 24px 0 16px; padding-bottom: 7px} li + li {margin-top: 4px}
pre {padding: 16px; font-size: 13.6px; line-height: 1.45; white-space: pre} img {max-width: 100%}
table {border-collapse: collapse} th, td {padding: 6px 13px; border: 1px solid} code {font-size: 85%}"""


def test_the_front_page_is_two_screens_and_a_picture(page):
    root = results.course()
    html = MarkdownIt("commonmark").enable("table").render((root / "README.md").read_text(encoding="utf-8"))
    page.route("https://**", lambda route: route.fulfill(body=BADGE,
                                                         content_type="image/svg+xml"))  # fmt: skip
    page.route("http://front.test/**", lambda route: route.fulfill(path=root / route.request.url.rpartition("/")[2]))
    page.route("**/front.ttf", lambda route: route.fulfill(path=Path(matplotlib.get_data_path()) / FONT,
                                                           headers={"Access-Control-Allow-Origin": "*"}))  # fmt: skip
    page.set_content(f'<base href="http://front.test/"><style>{STYLE}</style><article>{html}</article>')
    page.wait_for_function("[...document.images].every(image => image.complete)")
    page.evaluate("document.fonts.ready")
    assert page.evaluate("document.fonts.check('16px front')")
    heights = page.evaluate("[document.querySelector('article').offsetHeight, document.images[0].offsetHeight]")
    assert heights[1] > 200 and heights[0] - heights[1] <= 2 * SCREEN, heights
    assert page.evaluate("document.querySelector('article').scrollWidth") <= 830
    assert page.evaluate("[...document.images].every(image => image.alt)")


def test_its_picture_is_small_and_has_its_own_background():
    picture = (results.course() / "demo.svg").read_text(encoding="utf-8")
    assert len(picture) < 1_000_000 and 'fill: #f0f0ec"' in picture[:3000]  # the same in light and dark themes
