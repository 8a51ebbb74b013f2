"""The demo: a trained MobileNetV2 classifies held-out digits, and the full-size network classifies a photograph.

Both run on this project's CUDA C++ kernels, on a GPU or on the simulator, and are compared with ONNX Runtime.
"""

import contextlib
import errno
import hashlib
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from . import classify, cuda, files, images, weights
from .network import Network
from .network.compare import TOLERANCE, relative_error
from .report.figures import Figure
from .text import PACKAGE_NAME, printable

SHEET = "digits.png"


def run(out: Path, console: Console) -> bool:
    """Run the demo and write digits.png to the folder `out`, which is created if necessary.

    Returns whether all results agree with ONNX Runtime's: the classes of all digits, and the photograph's scores within
    TOLERANCE with the same top-5 classes. OSError, before any computation, if digits.png cannot be written.
    """
    out.mkdir(parents=True, exist_ok=True)
    if not os.access(out, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "nothing can be written into this folder", str(out))
    with contextlib.suppress(FileNotFoundError):
        files.open_regular(out / SHEET).close()
    where = "this machine's GPU, through CuPy" if cuda.backend() == "gpu" else "the simulator, on this machine's CPU"
    console.print(f"CUDA C++ kernels run on [bold]{where}[/].\n")
    agreed = _digits(out, console)
    return _photo(console) and agreed


def _digits(out: Path, console: Console) -> bool:
    console.print("[bold]1. Handwritten digits[/] of people whose writing the network was not trained on")
    ours, reference = classify.read_digits("kernels"), classify.read_digits("onnxruntime")
    wrong = ours.predictions != ours.labels
    different = int((ours.predictions != reference.predictions).sum())
    sheet = out / SHEET
    images.contact_sheet(
        classify.as_grey(ours.images),
        [
            f"{p}, not {label}" if bad else str(p)
            for p, label, bad in zip(ours.predictions, ours.labels, wrong, strict=True)
        ],
        wrong,
        sheet,
        title=f"{len(wrong)} held-out digits, {int((~wrong).sum())} read correctly ({100 * ours.accuracy:.1f} %)",
    )
    console.print(f"   {int((~wrong).sum())} of {len(wrong)} read correctly: {100 * ours.accuracy:.1f} %")
    console.print(f"   {len(wrong) - different} of {len(wrong)} predictions are ONNX Runtime's")
    console.print(f"   relative error of the scores {relative_error(ours.scores, reference.scores):.1e}")
    console.print(f"   every digit and what it was taken for: {printable(sheet)}\n", soft_wrap=True, markup=False)
    return different == 0


def _photo(console: Console) -> bool:
    photo = images.sample()
    console.print(f"[bold]2. The full-size network[/], 1000 classes, on the photograph {photo.name}")
    task = classify.task("seeded")
    x = task.prepare(photo)
    net, reference = Network(task.model), Network(task.model, "onnxruntime")
    net(x)  # compiles the kernels, allocates the buffers
    start = time.perf_counter()
    ours = net(x)
    seconds = time.perf_counter() - start
    theirs = reference(x)
    error = relative_error(ours, theirs)

    table = Table("rank", "our kernels", "ONNX Runtime", box=None, pad_edge=False, padding=(0, 3))
    pairs = zip(classify.best(ours, 5), classify.best(theirs, 5), strict=True)
    for rank, ((mine, p), (other, q)) in enumerate(pairs, 1):
        table.add_row(str(rank), f"class {mine:4d}  {100 * p:6.3f} %", f"class {other:4d}  {100 * q:6.3f} %")
    console.print("   The weights are random: the work is real, but the classes mean nothing.")
    console.print(table)
    console.print(
        f"   For classes with names: python -m {PACKAGE_NAME} classify PICTURE --weights imagenet   (downloads 14 MB)",
        soft_wrap=True,
    )
    console.print(f"   relative error {error:.1e}, allowed are {TOLERANCE:.0e}; {seconds:.3f} s for the picture")
    same = [c for c, _ in classify.best(ours, 5)] == [c for c, _ in classify.best(theirs, 5)]
    return error <= TOLERANCE and same


# ---- The picture of the front page

SHOWN = 32  # digits: the first ones, and the first that is read wrongly
TRANSPOSE = """
extern "C" __global__
void transpose(const float* in, float* out, int n) {
    int x = blockIdx.x * 32 + threadIdx.x;
    int y = blockIdx.y;
    if (x >= n) return;
    float value = in[y * n + x];
    out[x * n + y] = value;
}
"""


def front() -> Any:
    """The drawing of the repository's README, a draw.Drawing: a kernel traced, and held-out digits read."""
    from .draw.front import front

    n = 64
    kernel = cuda.RawKernel(TRANSPOSE.strip("\n"), "transpose")
    arrays = cuda.asarray(np.arange(n * n, dtype=np.float32)), cuda.empty(n * n, np.float32)
    report = cuda.trace(kernel, (n // 32, n), (32,), (*arrays, np.int32(n)))
    digits = classify.read_digits("kernels")
    wrong = np.flatnonzero(digits.predictions != digits.labels)
    chosen = np.append(np.arange(SHOWN - 1), wrong[wrong >= SHOWN - 1][0])
    total, last = len(digits.labels), chosen[-1]
    return front(
        report,
        classify.as_grey(digits.images[chosen]),
        digits.predictions[chosen].tolist(),
        digits.labels[chosen].tolist(),
        f"{total - len(wrong)} of {total} new digits read correctly; the last one here is a {digits.labels[last]}",
    )


def _shown(_: Any) -> list[dict[str, Any]]:
    """What the drawing is made from, for the digest in its file: kernel, digits, look, the trained network."""
    from .draw.front import LOOK

    trained = Path(weights.__file__).with_name("digits.npz").read_bytes()
    return [{"kernel": TRANSPOSE, "digits": SHOWN, "look": LOOK, "weights": hashlib.sha256(trained).hexdigest()}]


FIGURES = (Figure("demo.svg", _shown, lambda *_: front().figure),)
