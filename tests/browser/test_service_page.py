"""The service's page in Chromium: a picture is chosen, another one dropped, a file that is none gets a sentence.

The page is served with answers of the test's own; tests/many/test_on_ray.py has the service.
"""

import base64
import io
import json

import pytest
from jupyterlab_driver import CONTRASTS
from PIL import Image
from playwright.sync_api import expect

from common.many import service

ADDRESS = "http://service.test/"
CAT = {"class": 281, "label": "tabby", "score": 0.75, "top": [
    {"class": 281, "label": "tabby", "score": 0.75}, {"class": 282, "label": None, "score": 0.125},
]}  # fmt: skip
REFUSED = {"error": "This picture was not read: not an image of a known format, or broken at its beginning."}


def png():
    file = io.BytesIO()
    Image.new("RGB", (30, 20), (200, 30, 30)).save(file, "PNG")
    return file.getvalue()


@pytest.fixture
def page(browser):
    """The page, with `page.bodies`, what it has posted."""
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.bodies = []

    def answer(route):
        if route.request.method == "GET":
            route.fulfill(body=service.PAGE.read_text(encoding="utf-8"), content_type="text/html")
            return
        page.bodies.append(route.request.post_data_buffer)
        found = (200, CAT) if page.bodies[-1] == png() else (415, REFUSED)
        route.fulfill(status=found[0], body=json.dumps(found[1]), content_type="application/json")

    page.route("**/*", answer)
    page.goto(ADDRESS)
    yield page
    page.close()


def test_a_chosen_picture_is_sent_and_its_classes_are_shown(page):
    page.set_input_files("#file", {"name": "cat.png", "mimeType": "image/png", "buffer": png()})
    expect(page.locator("tbody tr")).to_have_text(["tabby75.00 %", "class 28212.50 %"])
    expect(page.locator("#picture")).to_be_visible()
    assert page.bodies == [png()]


def test_a_dropped_picture_is_sent(page):
    content = base64.b64encode(png()).decode()
    transfer = page.evaluate_handle(
        """content => {
            const bytes = Uint8Array.from(atob(content), c => c.charCodeAt(0)), data = new DataTransfer();
            data.items.add(new File([bytes], "cat.png", {type: "image/png"}));
            return data;
        }""",
        content,
    )
    page.dispatch_event("#drop", "dragover", {"dataTransfer": transfer})
    expect(page.locator("#drop.over")).to_be_visible()
    page.dispatch_event("#drop", "drop", {"dataTransfer": transfer})
    expect(page.locator("tbody tr")).to_have_count(2)
    assert page.bodies == [png()] and page.url == ADDRESS


def test_what_is_no_picture_gets_the_services_sentence_and_the_next_one_is_answered(page):
    page.set_input_files("#file", {"name": "x.png", "mimeType": "image/png", "buffer": b"none"})
    expect(page.locator("#message")).to_have_text(REFUSED["error"])
    expect(page.locator("#classes")).to_be_hidden()
    expect(page.locator("#picture")).to_be_hidden()
    page.set_input_files("#file", {"name": "cat.png", "mimeType": "image/png", "buffer": png()})
    expect(page.locator("tbody tr")).to_have_count(2)
    expect(page.locator("#message")).to_have_text("")


def test_a_service_that_does_not_answer_is_said(page):
    page.route("**/*", lambda route: route.abort())
    page.set_input_files("#file", {"name": "cat.png", "mimeType": "image/png", "buffer": png()})
    expect(page.locator("#message")).to_have_text("The service does not answer.")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_can_be_read_in_both_themes(page, theme):
    page.emulate_media(color_scheme=theme)
    page.set_input_files("#file", {"name": "cat.png", "mimeType": "image/png", "buffer": png()})
    expect(page.locator("tbody tr")).to_have_count(2)
    contrasts = page.locator("body").evaluate(CONTRASTS)
    assert contrasts and all(contrast >= 4.5 for _, contrast in contrasts), contrasts
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
