"""Commands for many pictures: label, serve."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ..text import printable
from .errors import fail

Weights = Annotated[
    str | None, typer.Option(help="imagenet, digits or seeded; imagenet if neither this nor --onnx is given.")
]
Onnx = Annotated[Path | None, typer.Option(help="A network of your own.")]
Dtype = Annotated[str, typer.Option(help="fp32 or fp16.")]


def label(
    pictures: Annotated[list[str], typer.Argument(help="Folders, files, patterns in quotes, or one .parquet file.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The .parquet file to write: a row per picture.")],
    weights: Weights = None,
    onnx: Onnx = None,
    dtype: Dtype = "fp32",
    batch: Annotated[
        int | None, typer.Option(min=1, help="Pictures at a time; 256, or 32 on the simulator, if not given.")
    ] = None,
    workers: Annotated[
        str, typer.Option(help="auto (one per GPU; few pictures: this process), a number, or 0: this process.")
    ] = "auto",
    decode: Annotated[
        str, typer.Option(help="cpu, or gpu: JPEG files are decoded there, with torchvision; scores differ a little.")
    ] = "cpu",
    anew: Annotated[bool, typer.Option("--anew", help="Do again what an earlier run has done.")] = False,
) -> None:
    """Write class and score of many pictures into a Parquet file; a run that was ended goes on where it was.

    A file that is no picture gets a row with the reason. With Ray (the extra "many") all cores decode and all GPUs
    compute, on several machines if RAY_ADDRESS names a cluster; without, one process writes the same file.
    """
    from ..many import cluster, labelling, parts

    _check_dtype(dtype)
    if decode not in ("cpu", "gpu"):
        raise fail(f"--decode: must be cpu or gpu, got {decode!r}")
    way = _way(workers)
    task = _task(weights, onnx)
    size = batch or _batch(cluster.address())
    try:
        done = labelling.label(pictures, out, task, batch=size, dtype=dtype, decode_on=decode, anew=anew, way=way)
    except KeyboardInterrupt:
        if parts.folder_of(out).is_dir():
            fail(f"label: ended; what is done is kept in {parts.folder_of(out)}, the same command goes on from there")
        raise typer.Exit(130) from None
    unread = f", {done.unread:,} of them not readable: see the column error" if done.unread else ""
    print(f"{printable(out)}: {done.pictures:,} pictures{unread}")
    if done.computed:
        print(f"{done.computed:,} in {done.seconds:.1f} s, {done.computed / done.seconds:,.0f} pictures/s")
    else:
        print("nothing was to be done: --anew does it again")
    if done.changed:
        fail(f"label: the input changed meanwhile ({done.changed}); the output has what was there at the beginning")


def _task(weights: str | None, onnx: Path | None) -> Any:
    """The classify.Task of the options; exit status 2 if both are given."""
    from .. import classify

    if weights and onnx:
        raise fail("--weights and --onnx: give one of them")
    return classify.task(weights or "imagenet", onnx)


def _check_dtype(dtype: str) -> None:
    """Exit status 2 for an unknown dtype."""
    from ..network import DTYPES

    if dtype not in DTYPES:
        raise fail(f"--dtype: must be one of {', '.join(DTYPES)}, got {dtype!r}")


def _batch(address: str | None) -> int:
    """Pictures per batch: 32 on the simulator, 256 elsewhere."""
    from .. import cuda

    return 256 if address or cuda.backend() == "gpu" else 32


def _way(workers: str) -> Any:
    """How to label (labelling.Way): the option --workers. Exit status 2 for another value."""
    from ..many import cluster, labelling
    from ..many.spread import Spread

    if workers == "auto":
        if cluster.installed():
            return labelling.in_this_process_if_few(Spread())
        print(
            'label: one process labels; with Ray all GPUs would: pip install ".[many]" in the course\'s folder',
            file=sys.stderr,
        )
        return labelling.in_this_process
    if not workers.isdecimal():
        raise fail(f"--workers: must be auto or a number, got {workers!r}")
    if workers == "0":
        return labelling.in_this_process
    if not cluster.installed():
        raise ModuleNotFoundError("No module named 'ray'", name="ray")
    return Spread(int(workers))


def serve(
    weights: Weights = None,
    onnx: Onnx = None,
    dtype: Dtype = "fp32",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Of HTTP.")] = 8000,
    host: Annotated[
        str, typer.Option(help="The address to listen on; 0.0.0.0: everybody can send pictures.")
    ] = "127.0.0.1",
    max_batch: Annotated[int, typer.Option(min=1, help="Pictures that are computed together.")] = 32,
    max_wait_ms: Annotated[
        float, typer.Option(min=0, help="How long the first picture of a batch waits for others.")
    ] = 5.0,
    workers: Annotated[int | None, typer.Option(min=1, help="One per GPU if not given.")] = None,
) -> None:
    """Classify pictures over HTTP: POST one, get JSON; a browser shows a form. Ctrl+C answers what came and stops."""
    from ..many import cluster, service

    if not cluster.installed():
        raise ModuleNotFoundError("No module named 'ray'", name="ray")
    _check_dtype(dtype)
    options = service.Options(max_batch=max_batch, max_wait_ms=max_wait_ms, dtype=dtype)
    task = _task(weights, onnx)
    service.check_free(host, port)
    print("starting …", file=sys.stderr, flush=True)

    def ready() -> None:
        print(f"http://{host}:{port}/ answers; Ctrl+C stops", flush=True)

    service.run(task, options, host, port, workers, ready)
    print("stopped; every picture that had arrived was answered")
