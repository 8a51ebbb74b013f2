"""The sources of weights: `digits`, trained in this course; `seeded`, random; `imagenet`, downloaded."""

from dataclasses import dataclass
from importlib.resources import files as package_files
from typing import TYPE_CHECKING

import numpy as np

from ..images import IMAGENET_MEAN, IMAGENET_STD
from ..topology import Graph, build, resnet20
from . import digits
from .files import Parameters, load
from .folding import fold_batch_norm
from .seeded import seeded_parameters

if TYPE_CHECKING:
    import onnx

Triple = tuple[float, float, float]


@dataclass(frozen=True, kw_only=True)
class Source:
    """A set of weights: the MobileNetV2 that it belongs to, and the preprocessing of pictures.

    A picture's shorter side is scaled to `resize`, its centre of input_size × input_size is cropped, and each of the
    channels R, G, B in 0 … 1 is normalised to (x − mean) / std. `resize` is None for digits, which are converted by
    `digit_from_picture` and `digits_input` instead.
    labels: the name of each class, or None if classes have no meaning.
    """

    name: str
    description: str
    width: float
    num_classes: int
    input_size: int
    resize: int | None
    mean: Triple
    std: Triple
    labels: tuple[str, ...] | None


# torchvision's names, in the order of the checkpoint's classes (torchvision/models/_meta.py, BSD-3-Clause)
IMAGENET_LABELS = tuple((package_files(__package__) / "imagenet_classes.txt").read_text("utf-8").splitlines())

SOURCES = {
    source.name: source
    for source in (
        Source(
            name="digits",
            description="handwritten digits, trained by 02_weights/train_digits.py, in the repository",
            width=0.35,
            num_classes=10,
            input_size=digits.INPUT_SIZE,
            resize=None,
            mean=(digits.MEAN,) * 3,
            std=(digits.STD,) * 3,
            labels=tuple("0123456789"),
        ),
        Source(
            name="seeded",
            description="the full-size network with random weights: real work, meaningless classes, offline",
            width=1.0,
            num_classes=1000,
            input_size=224,
            resize=256,
            mean=IMAGENET_MEAN,
            std=IMAGENET_STD,
            labels=None,
        ),
        Source(
            name="imagenet",
            description="1000 kinds of things, torchvision's checkpoint IMAGENET1K_V2, downloaded (14 MB)",
            width=1.0,
            num_classes=1000,
            input_size=224,
            resize=232,
            mean=IMAGENET_MEAN,
            std=IMAGENET_STD,
            labels=IMAGENET_LABELS,
        ),
    )
}


def source(name: str) -> Source:
    """Look up a source by name; ValueError listing the valid names."""
    if name not in SOURCES:
        raise ValueError(f"there are no weights called {name!r}, only {', '.join(SOURCES)}")
    return SOURCES[name]


def network(name: str, input_size: int | None = None) -> tuple[Graph, Parameters]:
    """Layers and float32 parameters of a source, batch-norms folded, at batch 1 and any input size.

    input_size: by default the source's. ValueError for an unknown source; RuntimeError if `imagenet` cannot be
    downloaded.
    """
    spec = source(name)
    size = input_size or spec.input_size
    if name == "digits":
        stored = load(str(package_files(__package__) / "digits.npz"))  # stored as fp16 to halve the size
        graph = build(spec.width, spec.num_classes, size)
        return graph, {key: array.astype(np.float32) for key, array in stored.items()}
    graph = build(spec.width, spec.num_classes, size, batch_norm=True)
    if name == "seeded":
        # generated at the source's input size, so that the numbers do not depend on input_size
        parameters = seeded_parameters(build(spec.width, spec.num_classes, spec.input_size, batch_norm=True))
    else:
        from .imagenet import imagenet_parameters

        parameters = imagenet_parameters()
    return fold_batch_norm(graph, parameters)


def model(name: str, input_size: int | None = None) -> "onnx.ModelProto":
    """A source as an ONNX model: (N, 3, input_size, input_size) float32 → logits (N, num_classes), any N.

    Errors as for `network`.
    """
    from ..topology import write_onnx

    return write_onnx(*network(name, input_size), dynamic_batch=True)


def resnet20_model(input_size: int = 32) -> "onnx.ModelProto":
    """ResNet-20 with seeded weights: (N, 3, input_size, input_size) float32 → logits (N, 10), any N.

    Not a source, because those are MobileNetV2s. Batch-norms are folded; layers are named as by `topology.resnet20`.
    The numbers do not depend on input_size.
    """
    from ..topology import write_onnx

    folded = fold_batch_norm(resnet20(input_size=input_size), seeded_parameters(resnet20()))
    return write_onnx(*folded, dynamic_batch=True)


def labels(name: str) -> list[str] | None:
    """The names of a source's classes, or None if they have no meaning (`seeded`). ValueError for an unknown source."""
    names = source(name).labels
    return None if names is None else list(names)
