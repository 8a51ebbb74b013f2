"""Commands on the parts of networks: topology, images, weights."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from ..text import printable
from .errors import fail


def topology(
    onnx: Annotated[Path | None, typer.Option(help="List the layers of this ONNX file.")] = None,
    width: Annotated[float, typer.Option(help="Width multiplier of MobileNetV2.")] = 1.0,
    classes: Annotated[int, typer.Option(help="Number of classes of MobileNetV2.")] = 1000,
    size: Annotated[int | None, typer.Option(help="Height and width of the input; 224 unless a file fixes it.")] = None,
) -> None:
    """List a network layer by layer: shapes, multiply-accumulates, parameters, and the census."""
    from ..topology import build, read_onnx

    if onnx is not None:
        graph = read_onnx(onnx, input_shape=None if size is None else (None, None, size, size))
    else:
        graph = build(width=width, num_classes=classes, input_size=224 if size is None else size)
    print(graph)


images_app = typer.Typer(help="Pictures as network inputs.", no_args_is_help=True)


@images_app.callback()
def images_group() -> None:
    """(With a callback, one command alone keeps its name.)"""


@images_app.command("pack")
def images_pack(
    pictures: Annotated[list[Path], typer.Argument(help="Picture files, and folders of them.", readable=False)],
    out: Annotated[Path, typer.Option(help="The .npy file to write; the names go into OUT.json.")],
    size: Annotated[int, typer.Option(min=1, help="Height and width of an input.")] = 224,
) -> None:
    """Prepare pictures for a network as one .npy file, (N, 3, size, size) float32; exit status 1 if some are left out.

    numpy.load(OUT, mmap_mode="r") reads it, and so does cnpy in C++.
    """
    from tqdm import tqdm

    from ..images import pack

    packed = pack(pictures, out, size, lambda line: tqdm.write(line, file=sys.stderr))
    left = f", {len(packed.skipped)} left out" if packed.skipped else ""
    shape = f"{packed.written} × 3 × {size} × {size} float32"
    print(f"{printable(out)}: {shape}, {out.stat().st_size:,} bytes{left}")
    if packed.skipped:
        raise typer.Exit(1)


weights_app = typer.Typer(help="Weights of MobileNetV2: make, extract and check them.", no_args_is_help=True)
Force = Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")]


@weights_app.command("make")
def weights_make(
    source: Annotated[str, typer.Argument(help="digits, seeded or imagenet.")],
    out: Annotated[Path, typer.Option(help="Where to: .onnx or .npz.")],
    size: Annotated[int | None, typer.Option(min=1, help="Height and width of the input.")] = None,
    force: Force = False,
) -> None:
    """Write a network with its weights as ONNX, or the weights alone; batch-norms are folded."""
    from ..weights import commands

    commands.make_file(source, out, size, force)
    print(f"{printable(out)}: {out.stat().st_size:,} bytes")


@weights_app.command("extract")
def weights_extract(
    onnx: Annotated[Path, typer.Argument(help="An ONNX file.")],
    out: Annotated[Path, typer.Option(help="Where to: .npz.")],
    raw: Annotated[bool, typer.Option("--raw", help="Every initializer just as it is stored.")] = False,
    force: Force = False,
) -> None:
    """Take the parameters of the layers out of an ONNX file."""
    from ..weights import commands

    parameters = commands.extract_file(onnx, out, raw, force)
    print(f"{printable(out)}: {len(parameters)} arrays, {out.stat().st_size:,} bytes")


@weights_app.command("check")
def weights_check(
    file: Annotated[Path, typer.Argument(help="Weights: .npz or .onnx.")],
    onnx: Annotated[Path | None, typer.Option(help="The network they are for, if not MobileNetV2.")] = None,
) -> None:
    """Compare weights with their layers; exit status 1 if any is missing, misshapen or not finite."""
    from ..weights import commands

    lines, wrong = commands.check_file(file, onnx)
    print("\n".join(lines))
    if wrong:
        fail(f"{file}: {wrong} parameters are out of order")
        raise typer.Exit(1)
