"""JupyterLab as a subprocess, and its page as a person uses it: open, click, type, run, look."""

import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import expect

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "course"
SECONDS = 180  # for all of it

# How much lighter or darker a text is than what is behind it, for each piece of text in an element. WCAG 2.1, 1.4.3.
CONTRASTS = """element => {
    const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
    const parsed = (color) => {  // any notation, color(srgb …) too, as numbers from 0 to 255 and alpha from 0 to 1
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = color;
        canvas.fillRect(0, 0, 1, 1);
        const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
        return [r, g, b, a / 255];
    };
    const channel = (c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
    const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
    const over = ([r, g, b, a], below) => [r, g, b].map((c, i) => a * c + (1 - a) * below[i]);
    const background = (node) => {
        if (!node) return [255, 255, 255];
        const color = parsed(getComputedStyle(node).backgroundColor);
        return color[3] === 1 ? color : over(color, background(node.parentElement));
    };
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    const found = [];
    while (walker.nextNode()) {
        const node = walker.currentNode.parentElement, text = walker.currentNode.data.trim();
        if (!text || !node.checkVisibility()) continue;
        const behind = background(node), front = over(parsed(getComputedStyle(node).color), behind);
        const [low, high] = [luminance(front), luminance(behind)].sort((a, b) => a - b);
        found.push([text, (high + 0.05) / (low + 0.05)]);
    }
    return found;
}"""


def chromium() -> str | None:
    """The path of the machine's Chromium or Chrome, or None."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((path for name in names if (path := shutil.which(name))), None)


def learners_copies(folder: Path) -> None:
    """What `make lab` makes, in a folder of its own."""
    command = [sys.executable, "-m", "common", "lab", "--no-open", "--into", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)


def scratch(path: Path, *cells: str) -> None:
    """A notebook of these code cells."""
    metadata = {"kernelspec": {"name": "python3", "display_name": "MobileNetV2 course", "language": "python"}}
    code = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    made = [code | {"id": f"cell-{number}", "source": text} for number, text in enumerate(cells)]
    path.write_text(json.dumps({"cells": made, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}))


def _environment(folder: Path) -> dict[str, str]:
    """Jupyter's settings as bootstrap.py makes them, and nothing of this machine's own."""
    spec = importlib.util.spec_from_file_location("bootstrap", ROOT / "bootstrap.py")
    bootstrap = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bootstrap)
    bootstrap.PYTHON = sys.executable
    bootstrap.install_kernel(str(folder))
    bootstrap.install_lab(str(folder / "share" / "jupyter"))
    config = folder / "config" / "jupyter_lab_config.json"
    config.parent.mkdir()
    config.write_text(json.dumps({"LabApp": {"app_settings_dir": str(folder / "share/jupyter/lab/settings")}}))
    return os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep),
        "JUPYTER_PATH": str(folder / "share" / "jupyter"),
        "JUPYTER_CONFIG_DIR": str(config.parent),
        "JUPYTER_DATA_DIR": str(folder / "data"),
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
        "IPYTHONDIR": str(folder / "ipython"),
    }


@contextmanager
def served(root: Path, folder: Path):
    """JupyterLab with its files in `root` and all else in `folder`; its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1"]
    command += [f"--ServerApp.port={port}", "--ServerApp.port_retries=0", f"--ServerApp.root_dir={root}"]
    command += [f"--IdentityProvider.token={TOKEN}", "--LabApp.expose_app_in_browser=True"]
    with open(folder / "jupyterlab.log", "w") as log:
        server = subprocess.Popen(command, cwd=root, env=_environment(folder), stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_until_answered(server, f"{address}/api?token={TOKEN}", folder / "jupyterlab.log")
        yield address
    finally:
        server.terminate()  # JupyterLab shuts its kernels down
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _wait_until_answered(server: subprocess.Popen, url: str, log: Path) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            return urllib.request.urlopen(url, timeout=10).close()
        except OSError:
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"JupyterLab does not answer:\n{log.read_text()[-3000:]}") from None
            time.sleep(0.1)


class Lab:
    """A browser's page with JupyterLab in it."""

    def __init__(self, page, address: str):
        self.page, self.address = page, address

    def start_anew(self) -> None:
        """Load the whole page, with nothing open in it."""
        self.page.goto(f"{self.address}/lab?token={TOKEN}&reset")
        self.page.wait_for_function("window.jupyterapp?.restored.then(() => true)")

    def open(self, path: str) -> None:
        """Open a file of the server's root folder, as a double click in the file browser does."""
        self.page.evaluate("path => jupyterapp.commands.execute('docmanager:open', {path}).then(() => null)", path)
        self.page.wait_for_function("path => jupyterapp.shell.currentWidget?.context?.path === path", arg=path)

    def theme(self, name: str) -> None:
        """Choose "JupyterLab Light" or "JupyterLab Dark", as the menu Settings does, and wait until it is there."""
        self.page.evaluate("theme => jupyterapp.commands.execute('apputils:change-theme', {theme})", name)
        self.page.locator(f"body[data-jp-theme-name='{name}']").wait_for(state="attached")

    @property
    def markdown(self):
        """The Markdown page in front."""
        return self.page.locator(".jp-MarkdownViewer:visible")

    @property
    def notebook(self):
        """The notebook in front."""
        return self.page.locator(".jp-NotebookPanel:visible")

    def ready(self) -> None:
        """Wait until the notebook in front has a kernel that answers and has nothing to do."""
        self.notebook.locator(".jp-Notebook").wait_for()
        self.page.evaluate(
            """async () => {
                const context = jupyterapp.shell.currentWidget.sessionContext;
                await context.ready;
                await context.session.kernel.info;
            }"""
        )
        self.notebook.locator(".jp-Notebook-ExecutionIndicator[data-status='idle']").wait_for()

    def cell(self, text: str, after=None):
        """The first code cell of the notebook in front that holds a text, or the first one below the cell `after`."""
        number = self.page.wait_for_function(
            """([text, after]) => {
                const notebook = jupyterapp.shell.currentWidget.content;
                const cells = [...notebook.widgets];
                const index = cells.findIndex((cell, index) => index > after
                    && cell.model.type === "code" && cell.model.sharedModel.getSource().includes(text));
                if (index < 0) return null;
                notebook.activeCellIndex = index;
                notebook.scrollToItem(index);
                cells[index].node.dataset.number = index;
                return {index};
            }""",
            arg=[text, -1 if after is None else int(after.get_attribute("data-number"))],
        ).json_value()["index"]
        cell = self.notebook.locator(f".jp-Cell[data-number='{number}']")
        cell.locator(".cm-content").wait_for()
        return cell

    def write(self, cell, text: str) -> None:
        """Select all that is in a cell and type."""
        cell.locator(".cm-content").click()
        self.page.keyboard.press("ControlOrMeta+A")
        self.page.keyboard.insert_text(text)

    def start(self, cell) -> None:
        """Shift-Enter, and wait until the cell is running or has run."""
        prompt = cell.locator(".jp-InputPrompt")
        before = prompt.inner_text()
        cell.locator(".cm-content").click()
        self.page.keyboard.press("Shift+Enter")
        expect(prompt).not_to_have_text(before)

    def run(self, cell):
        """Shift-Enter. Returns the cell's outputs, once it has run."""
        self.start(cell)
        return self.outputs(cell)

    def outputs(self, cell):
        """The outputs of a cell that was started, once it has run."""
        expect(cell.locator(".jp-InputPrompt")).to_have_text(re.compile(r"^\[\d+\]:$"))
        outputs = cell.locator(".jp-OutputArea")
        outputs.scroll_into_view_if_needed()
        return outputs

    def press(self, button: str) -> None:
        """Press a button above the notebook: "interrupt" or "restart"."""
        self.notebook.locator(f".jp-Toolbar-item[data-jp-item-name='{button}'] .jp-ToolbarButtonComponent").click()


def contrasts(element) -> dict[str, float]:
    """The contrast of each piece of text that is shown in an element, 1 to 21."""
    return dict(element.evaluate(CONTRASTS))
