import tempfile
from pathlib import Path

import numpy as np

from common.check import require
from common.check.trials import seeded

INF = np.float32(np.inf)


def word(one):
    """An argument in words."""
    if isinstance(one, np.ndarray):
        return f"an array of {one.dtype} of shape {one.shape}"
    return f"{one!r} ({type(one).__name__})"


def check(save_program, load_program, View):
    random, seed = seeded()

    def saved(launches, size, name="program.npz"):
        """What load_program makes of a saved program, and the file."""
        path = folder / name
        save_program(path, launches, size)
        require(path.exists(), what=f"save_program: there is no file {name}", hint="np.savez(path, …) writes it")
        return load_program(path), path

    def same(launches, size, result, what):
        """Check a loaded program against the one that was saved."""
        right = isinstance(result, tuple) and len(result) == 2
        require(right, what=f"{what}: load_program returns {result!r:.80}", hint="it returns (launches, size)")
        loaded, loaded_size = result
        hint = "size is a number of the program, too: it has to be in the file"
        require(loaded_size == size, what=f"{what}: the size is {loaded_size!r}, expected {size}", hint=hint)
        hint = "each launch is in the file once, in order"
        names, expected = [one[0] for one in loaded], [name for name, _ in launches]
        require(names == expected, what=f"{what}: the kernels are {names!r:.80}, expected {expected!r:.80}", hint=hint)
        for number, ((name, args), (_, found)) in enumerate(zip(launches, loaded, strict=True)):
            where = f"{what}: launch {number}, {name}"
            count = f"{where}: {len(found)} arguments, expected {len(args)}"
            require(len(found) == len(args), what=count, hint="each argument keeps its place, None as well")
            for at, (want, got) in enumerate(zip(args, found, strict=True)):
                argument(want, got, f"{where}: argument {at} is {word(got)}, expected {word(want)}")

    def argument(want, got, what):
        if want is None:
            require(got is None, what=what, hint="None is a null pointer; JSON has null for it")
        elif isinstance(want, View):
            hint = "a View has an offset and a shape; JSON makes a list of a tuple, also of a named one"
            require(isinstance(got, View), what=what, hint=hint)
            right = got.offset == want.offset and tuple(got.shape) == want.shape
            require(right, what=what, hint="offset and shape of a View are in the file")
        elif isinstance(want, np.ndarray):
            right = isinstance(got, np.ndarray) and got.dtype == want.dtype and got.shape == want.shape
            require(right, what=what, hint="weights come back with their type and their shape")
            hint = "bit for bit: np.savez keeps all digits of a number, a text may not"
            require(got.tobytes() == want.tobytes(), what=f"{what} of other numbers", hint=hint)
        elif isinstance(want, np.float32):
            hint = "a Python float is passed to a kernel as a double, which takes 8 bytes: np.float32 has to come back"
            require(isinstance(got, np.float32), what=what, hint=hint)
            require(got.tobytes() == want.tobytes(), what=what, hint="a bound may be infinite, or have many digits")
        else:
            fine = isinstance(got, int | np.integer) and not isinstance(got, bool)
            require(fine and got == want, what=what, hint="an int is passed to a kernel as an int: keep the type")

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        weight, bias = (random.standard_normal(shape, dtype=np.float32) for shape in ((5, 3, 1, 1), (5,)))
        x, out = View(256, (2, 3, 7, 5)), View(0, (2, 5, 7, 5))
        launches = [("pointwise", [x, weight, bias, None, out, np.float32(0.1), INF, 2, 3, 5, 35])]
        result, path = saved(launches, 2176)
        try:
            with np.load(path, allow_pickle=False) as file:
                {entry: file[entry] for entry in file.files}
        except Exception as error:
            hint = "pickle runs code of the file when it is loaded; arrays of numbers and of text need none"
            require(False, what=f"the file cannot be read without pickle: {error}", hint=hint)
        same(launches, 2176, result, "one launch")

        kept = [(name, list(args)) for name, args in launches]
        changed = [weight.copy(), bias.copy()]
        path = folder / "changed.npz"
        save_program(path, launches, 2176)
        weight[...], bias[...] = np.nan, np.nan
        result = load_program(path)
        kept[0][1][1:3] = changed
        same(kept, 2176, result, "loaded after the weights in memory have changed")
        same(kept, 2176, load_program(folder / "program.npz"), "loaded again")

        zeros = np.zeros(1000, np.float32)
        shared = [("conv", [View(0, (1, 4)), zeros, number, None]) for number in range(50)]
        result, path = saved(shared, 4096, "shared.npz")
        same(shared, 4096, result, "fifty launches with one array")
        bytes_of = path.stat().st_size
        hint = "ask whether this array was stored before: `is`, or id(array), tells whether two names are one array"
        what = f"an array of 4,000 bytes that fifty launches read makes a file of {bytes_of:,} bytes"
        require(bytes_of < 40_000, what=what, hint=hint)
        arrays = {id(args[1]) for _, args in result[0]}
        what = f"fifty launches with one array are loaded with {len(arrays)} arrays, expected 1"
        require(len(arrays) == 1, what=what, hint="file[name] reads the file anew each time: read each array once")

        equal = [("add", [np.ones(3, np.float32), np.ones(3, np.float32)])]
        same(equal, 256, saved(equal, 256, "equal.npz")[0], "two arrays with equal numbers")
        same([], 0, saved([], 0, "empty.npz")[0], "a program without launches")

        for trial in range(8):
            arrays = [
                random.standard_normal(tuple(random.integers(1, 5, random.integers(1, 5))), dtype=np.float32)
                for _ in range(6)
            ]
            launches = []
            for _ in range(int(random.integers(1, 30))):
                dims = tuple(int(n) for n in random.integers(1, 9, random.integers(1, 5)))
                some = [View(256 * int(random.integers(0, 2**34)), dims), arrays[random.integers(6)], None]
                some += [np.float32(random.standard_normal()), -INF, int(random.integers(-9, 2**31))]
                kernel = str(random.choice(["add", "conv", "gemm", "depthwise"]))
                launches.append((kernel, [some[i] for i in random.integers(0, len(some), random.integers(1, 12))]))
            result, _ = saved(launches, 2**40 + trial, f"trial{trial}.npz")
            same(launches, 2**40 + trial, result, f"random launches, {seed}")
