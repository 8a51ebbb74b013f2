import json
from collections import namedtuple

import numpy as np

View = namedtuple("View", "offset shape")  # an array in the arena: its first byte, its shape


def save_program(path, launches, size):
    """Write a program to a file whose name ends in .npz, without pickled objects.

    launches: a list of (name of a kernel, list of its arguments). An argument is a View, a
    NumPy array of weights, an int, an np.float32 or None. One array may be an argument of
    several launches: the file has it once. size: bytes of the arena.
    """
    # BEGIN SOLUTION
    # write: weights by name, all the rest as one text
    arrays = {}

    def encoded(one):
        if isinstance(one, View):
            return {"offset": one.offset, "shape": one.shape}
        if isinstance(one, np.ndarray):
            arrays[f"weights{id(one)}"] = one
            return {"array": f"weights{id(one)}"}
        return {"float32": float(one)} if isinstance(one, np.float32) else one

    table = [[name, [encoded(one) for one in args]] for name, args in launches]
    np.savez(path, program=json.dumps([table, size]), **arrays)
    # END SOLUTION


def load_program(path):
    """(launches, size) as save_program got them, from its file alone."""
    # BEGIN SOLUTION
    # write: the inverse; a shared array is one array again
    with np.load(path) as file:
        table, size = json.loads(str(file["program"]))
        arrays = {name: file[name] for name in file.files if name != "program"}

    def decoded(one):
        if not isinstance(one, dict):
            return one
        if "array" in one:
            return arrays[one["array"]]
        if "float32" in one:
            return np.float32(one["float32"])
        return View(one["offset"], tuple(one["shape"]))

    return [(name, [decoded(one) for one in args]) for name, args in table], size
    # END SOLUTION
