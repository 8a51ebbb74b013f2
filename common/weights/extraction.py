"""Initializers out of an ONNX file: the numbers that training left, each under its name."""

import os

import numpy as np
import onnx

from ..topology import load_model
from ..topology.tensors import decode
from .files import Parameters


def extract(path_or_model: str | os.PathLike | onnx.ModelProto) -> Parameters:
    """Every initializer of the model's graph, by name, in the file's order, with its shape and dtype.

    Nothing is renamed, transposed or left out: weights and biases stand beside the constants that an exporter
    put among them (a clamp's limits, a reshape's sizes). `topology.read_onnx_with_parameters` is the one that
    knows which belongs to which layer. bfloat16 comes as float32, which holds it exactly.
    topology.InvalidModel or UnsupportedModel (ValueErrors) where the file cannot be read.
    """
    parameters: Parameters = {}
    for tensor in load_model(path_or_model).graph.initializer:
        array = decode(tensor)
        parameters[tensor.name] = array.astype(np.float32) if array.dtype.name == "bfloat16" else array
    return parameters
