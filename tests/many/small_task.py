"""A task that the simulator computes quickly, and pictures for it."""

import numpy as np
from PIL import Image

from common import topology, weights
from common.classify import Task

CLASSES, SIZE = 7, 32


def small_task() -> Task:
    """A small network of seeded weights for 32 × 32 pixels, as of a user's ONNX file."""
    graph = topology.build(0.35, CLASSES, SIZE, batch_norm=True)
    return Task(topology.write_onnx(graph, weights.seeded_parameters(graph), dynamic_batch=True), (SIZE, SIZE), None)


def draw_pictures(folder, count, rng, size=40, form="png"):
    """Pictures of noise and stripes in folder/00000.png, …, all different."""
    folder.mkdir(parents=True, exist_ok=True)
    y, x = np.mgrid[0:size, 0 : size + 8]
    for i in range(count):
        a, b, c = rng.integers(1, 40, 3)
        pixels = np.stack([x * a + y, y * b + x, x * y * c], -1) + rng.integers(0, 90, (size, size + 8, 3))
        Image.fromarray((pixels % 256).astype(np.uint8)).save(folder / f"{i:05}.{form}")
    return folder
