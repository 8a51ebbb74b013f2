"""A task that the simulator computes quickly, and pictures for it."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from common.classify import Task

CLASSES, SIZE = 7, 32


def small_task() -> Task:
    """A network of two layers for 32 × 32 pixels, as of a user's ONNX file."""
    rng = np.random.default_rng(5)
    weights = {
        "filters": rng.standard_normal((12, 3, 4, 4)).astype(np.float32),
        "scores": rng.standard_normal((CLASSES, 12)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "filters"], ["features"], strides=[4, 4]),
        helper.make_node("Relu", ["features"], ["positive"]),
        helper.make_node("GlobalAveragePool", ["positive"], ["means"]),
        helper.make_node("Flatten", ["means"], ["flat"]),
        helper.make_node("Gemm", ["flat", "scores"], ["logits"], transB=1),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, SIZE, SIZE])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", CLASSES])
    stored = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "small", [x], [logits], stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    return Task(model, (SIZE, SIZE), None)


def draw_pictures(folder, count, rng, size=40, form="png"):
    """Pictures of noise and stripes in folder/00000.png, …, all different."""
    folder.mkdir(parents=True, exist_ok=True)
    y, x = np.mgrid[0:size, 0 : size + 8]
    for i in range(count):
        a, b, c = rng.integers(1, 40, 3)
        pixels = np.stack([x * a + y, y * b + x, x * y * c], -1) + rng.integers(0, 90, (size, size + 8, 3))
        Image.fromarray((pixels % 256).astype(np.uint8)).save(folder / f"{i:05}.{form}")
    return folder
