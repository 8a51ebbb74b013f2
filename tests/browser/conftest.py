"""A browser for the tests here, and a picture of what it showed when one of them failed."""

import time

import pytest

PICTURES = "out/browser"
WAIT = 40  # seconds, for anything that should appear


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.when == "call":
        item.stash[FAILED] = report.failed
    return report


FAILED = pytest.StashKey[bool]()


@pytest.fixture(scope="module")
def browser():
    pytest.importorskip("playwright", reason="Playwright is not installed: pip install playwright")
    from jupyterlab_driver import chromium
    from playwright.sync_api import sync_playwright

    path = chromium()
    if path is None:
        pytest.skip("there is no Chromium or Chrome here: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def server(browser, tmp_path_factory):
    """(JupyterLab's address, the folder of the learner's copies, when all has to be done)."""
    from jupyterlab_driver import SECONDS, learners_copies, served

    deadline = time.monotonic() + SECONDS
    root = tmp_path_factory.mktemp("root")
    learners_copies(root / "work")
    with served(root, tmp_path_factory.mktemp("jupyter")) as address:
        yield address, root / "work", deadline


@pytest.fixture(scope="module")
def page(browser):
    """A page of 1280 × 900 pixels. Loading JupyterLab takes longer than most tests: they share it."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    yield page
    page.close()


@pytest.fixture
def lab(page, server, request):
    """JupyterLab's page; loaded anew for the first test, and behind one that failed."""
    from jupyterlab_driver import Lab
    from playwright.sync_api import expect

    address, _, deadline = server
    left = deadline - time.monotonic()
    assert left > 0, "the tests in the browser have taken longer than they may"
    page.set_default_timeout(1000 * min(WAIT, left))
    expect.set_options(timeout=1000 * min(WAIT, left))
    lab = Lab(page, address)
    if not page.url.startswith(address):
        lab.start_anew()
    yield lab
    if request.node.stash.get(FAILED, False):
        folder = request.config.rootpath / PICTURES
        folder.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=folder / f"{request.node.name}.png")
        print(f"the page when it failed: {PICTURES}/{request.node.name}.png")
        page.goto("about:blank")
