"""Extraction of the initializers of an ONNX file, by name."""

import os

import numpy as np
import onnx

from ..topology import load_model
from ..topology.tensors import decode
from .files import Parameters


def extract(path_or_model: str | os.PathLike | onnx.ModelProto) -> Parameters:
    """Every initializer of the model's graph, by name, in the file's order, with its shape and dtype.

    Nothing is renamed, transposed or left out: besides weights and biases there are an exporter's constants (a clamp's
    bounds, a reshape's sizes). `topology.read_onnx_with_parameters` assigns parameters to layers instead. bfloat16 is
    converted to float32, which is exact. topology.InvalidModel or UnsupportedModel (ValueErrors) if the file cannot be
    read.
    """
    parameters: Parameters = {}
    for tensor in load_model(path_or_model).graph.initializer:
        array = decode(tensor)
        parameters[tensor.name] = array.astype(np.float32) if array.dtype.name == "bfloat16" else array
    return parameters
