"""Classification of pictures: preprocessing for a network, class probabilities, and text output."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from . import cuda, images, topology, weights
from .network import Network


@dataclass(frozen=True)
class Task:
    """A network and the preprocessing of its inputs.

    model: an ONNX ModelProto. input_size: (height, width). source: of the weights, or None for a user's file, which is
    assumed to need ImageNet's normalisation.
    """

    model: Any
    input_size: tuple[int, int]
    source: weights.Source | None

    @property
    def labels(self) -> Sequence[str] | None:
        """The names of the classes, or None if they are unknown or have no meaning."""
        return self.source.labels if self.source else None

    def prepare(self, path: str | Path) -> np.ndarray:
        """A picture file as the network's input, (1, 3, H, W) float32. images.ImageError if that fails."""
        picture = images.read(path)
        try:
            if self.normalised_before:
                return self.packed(picture)[None]
            return images.to_input(picture, self.input_size, self.shorter_side, *self.normalisation)
        except ValueError as error:
            raise images.ImageError(f"{path}: {error}") from None

    def packed(self, picture: Image.Image) -> np.ndarray:
        """An RGB picture in the form that takes the fewest bytes on its way to the device.

        (H, W, 3) uint8, to be normalised there; of digits, which are drawn anew, the normalised input (3, H, W)
        float32. ValueError for a picture that cannot be converted.
        """
        if self.normalised_before:
            return weights.digits_input(weights.digit_from_picture(picture)[None])[0]
        return np.asarray(images.cropped(picture, self.input_size, self.shorter_side))

    @property
    def normalised_before(self) -> bool:
        """Whether `packed` gives normalised inputs: float32 instead of uint8."""
        return self.source is not None and self.source.name == "digits"

    @property
    def normalisation(self) -> tuple[Sequence[float], Sequence[float]]:
        """(mean, standard deviation) of each channel R, G, B in 0 … 1."""
        spec = self._preprocessing
        return spec.mean, spec.std

    @property
    def _preprocessing(self) -> weights.Source:
        return self.source or weights.SOURCES["seeded"]

    @property
    def shorter_side(self) -> int:
        """The length of the shorter side before the crop, relative to the input as in training."""
        spec = self._preprocessing
        return round(max(self.input_size) * (spec.resize or 256) / spec.input_size)


def task(source: str | None = None, onnx: str | Path | None = None) -> Task:
    """The task for weights by name ("digits", "seeded" (the default), "imagenet") or for an ONNX file.

    ValueError for an unknown name, RuntimeError for a failed download, topology.UnsupportedModel for a model with
    several inputs or outputs, or whose input does not have 3 channels, and the errors of topology.load_model.
    """
    if onnx is not None:
        graph = topology.read_onnx(onnx)
        if graph.more_inputs or graph.more_outputs:
            found = f"{len(graph.inputs)} and {len(graph.outputs)}"
            raise topology.UnsupportedModel(f"{onnx}: a classifier has one input and one output, the model has {found}")
        _, channels, height, width = graph.input_shape
        if channels != 3:
            raise topology.UnsupportedModel(f"{onnx}: pictures have 3 channels, the model's input has {channels}")
        return Task(topology.load_model(onnx), (height, width), None)
    spec = weights.source(source or "seeded")
    return Task(weights.model(spec.name), (spec.input_size, spec.input_size), spec)


def probabilities(scores: np.ndarray) -> np.ndarray:
    """Softmax along the last dimension, in float64; scores that are probabilities already are returned unchanged."""
    scores = np.asarray(scores, np.float64)
    if (scores >= 0).all() and np.allclose(scores.sum(-1), 1.0, atol=1e-3):
        return scores
    exponentials = np.exp(scores - scores.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


def best(scores: np.ndarray, k: int) -> list[tuple[int, float]]:
    """The k most probable classes of one picture's scores as (class, probability), best first."""
    p = probabilities(scores.reshape(-1))
    return [(int(i), float(p[i])) for i in np.argsort(-p, kind="stable")[:k]]


@dataclass(frozen=True)
class Reading:
    """A network's scores for held-out digits: images (N, 8, 8) uint8, labels (N,), scores (N, 10) float32."""

    images: np.ndarray
    labels: np.ndarray
    scores: np.ndarray

    @property
    def predictions(self) -> np.ndarray:
        """The class with the highest score of each digit, (N,)."""
        return self.scores.argmax(1)

    @property
    def accuracy(self) -> float:
        """The share of correct predictions, 0 … 1."""
        return float((self.predictions == self.labels).mean())


def read_digits(backend: str = "kernels", count: int | None = None, batch: int = 32) -> Reading:
    """Run the first `count` held-out digits, by default all, through the trained network on a backend.

    batch: how many digits at a time. Errors as for Network.
    """
    from tqdm import tqdm

    split = weights.digits_split()
    pictures, labels = split.test_images[:count], split.test_labels[:count]
    net = Network(weights.model("digits"), backend)
    inputs = weights.digits_input(pictures)
    starts = tqdm(
        range(0, len(inputs), batch),
        desc=f"reading {len(inputs)} digits",
        unit="batch",
        leave=False,
        disable=None,  # no progress bar without a terminal
    )
    scores = [cuda.asnumpy(net(inputs[start : start + batch])) for start in starts]
    return Reading(pictures, labels, np.concatenate(scores))


def as_text(digit: np.ndarray) -> list[str]:
    """A digit (8, 8), 0 … 16, as eight lines of 16 characters, darker for more ink."""
    shades = " ░▒▓█"
    return ["".join(shades[min(4, (int(v) + 3) // 4)] * 2 for v in row) for row in digit]


def as_grey(digits: np.ndarray) -> np.ndarray:
    """Digits (N, 8, 8), 0 (paper) … 16 (ink), as greyscale (N, 8, 8) uint8, dark on white."""
    return np.round(255 - digits * (255 / 16)).astype(np.uint8)
