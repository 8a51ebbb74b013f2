"""The package as others get it: built, installed where this repository is not, and used from another folder.

There it is called mobilenet_engine, as many projects have a folder common/; where there is none, `common` is a second
name for it.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from tiers import long, seldom

ROOT = Path(__file__).parents[1]

# A student's own project: every operator, and the trained network, in thirty lines.
OUTSIDE = """
import sys
import numpy as np
import common
import mobilenet_engine
from mobilenet_engine import cuda, kernels, topology, weights
from mobilenet_engine.network import Network

assert common.MINE and mobilenet_engine.__file__.startswith(sys.prefix), mobilenet_engine.__file__
random = np.random.default_rng(0)
x = random.standard_normal((2, 4, 9, 7), dtype=np.float32)
a, b = x.reshape(8, 63), random.standard_normal((63, 5), dtype=np.float32)
columns = kernels.im2col(x, 3, padding=1)
weight = random.standard_normal((6, 4, 3, 3), dtype=np.float32)
center = random.standard_normal((4, 1, 1, 1), dtype=np.float32)
pixel, full = x[:, :, :1, :1].copy(), np.ones(72, np.float32)  # a pixel is NCHW and NHWC at once
block = full[:32].reshape(8, 4, 1, 1), None, full.reshape(8, 1, 3, 3), None, full[:32].reshape(4, 8, 1, 1)
results = {
    "activate": (kernels.sigmoid(x), 1 / (1 + np.exp(-x))),
    "multiply": (kernels.multiply(x, x), x * x),
    "binary": (kernels.subtract(x, 2 * x), -x),
    "strided_slice": (kernels.strided_slice(x, (0, 1, 0, 6), (2, 2, 9, 4), (1, 1, 1, -2)), x[:, 1:3, :, ::-2]),
    "resize": (
        kernels.resize(x, (18, 14), mode="nearest", coordinates="asymmetric"), x.repeat(2, axis=2).repeat(2, axis=3)
    ),
    "conv_transpose2d": (
        kernels.conv_transpose2d(x, weight[:4], padding=1)[..., 0, 0],
        np.einsum("ncij,coij->no", x[..., :2, :2], weight[:4, :, 1::-1, 1::-1]),
    ),
    "layer_norm": (kernels.layer_norm(x).mean(1), np.zeros((2, 9, 7))),
    "group_norm": (kernels.group_norm(x, 2)[:, 2:].mean((1, 2, 3)), np.zeros(2)),
    "mean": (kernels.mean(x), x.mean(1, keepdims=True)),
    "pool2d": (kernels.avg_pool2d(x, (9, 7)), x.mean((2, 3), keepdims=True)),
    "concat": (kernels.concat([x, -x]), np.concatenate([x, -x], 1)),
    "pad": (kernels.pad(x, 1), np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))),
    "permute": (kernels.permute(x, (0, 2, 3, 1)), x.transpose(0, 2, 3, 1)),
    "add": (kernels.add(x, x), 2 * x),
    "clamp": (kernels.relu6(x), x.clip(0, 6)),
    "softmax": (kernels.softmax(a).sum(1), np.ones(8)),
    "global_avg_pool": (kernels.global_avg_pool(x), x.mean((2, 3), keepdims=True)),
    "gemm": (kernels.gemm(a, b), a @ b),
    "im2col": (columns[:, 4::9], x.reshape(2, 4, 63)),
    "depthwise": (kernels.depthwise(x, center), x * center.reshape(4, 1, 1)),
    "depthwise_backward_input": (kernels.depthwise_backward_input(x, center, x.shape), x * center.reshape(4, 1, 1)),
    "depthwise_backward_weight": (
        kernels.depthwise_backward_weight(x, x, 3, padding=1)[:, 0, 1, 1], (x * x).sum((0, 2, 3))
    ),
    "pointwise": (
        kernels.pointwise(x, weight[:, :, :1, :1].copy()).reshape(2, 6, 63), weight[:, :, 0, 0] @ x.reshape(2, 4, 63)
    ),
    "conv2d": (kernels.conv2d(x, weight, padding=1).reshape(2, 6, 63), weight.reshape(6, 36) @ columns),
    "inverted_residual": (
        kernels.inverted_residual(pixel, *block, variant="naive")[:, :, 0, 0],
        8 * pixel.sum((1, 2, 3))[:, None].clip(0, 6).repeat(4, axis=1)
    ),
    "winograd": (kernels.winograd(x, weight, None, 1).reshape(2, 6, 63), weight.reshape(6, 36) @ columns),
    "winograd_weight": (kernels.winograd_weight(weight)[0, :4, :6], weight[:, :, 0, 0].T),
}
q = cuda.to_layout(random.integers(-100, 100, (2, 4, 9, 7)).astype(np.int8), "NHWC")
one, ones = np.ones((4, 1, 1, 1), np.int8), np.ones(4, np.float32)
eye = np.eye(4, dtype=np.int8).reshape(4, 4, 1, 1)
results |= {
    "quantize": (kernels.quantize(q.astype(np.float32), 1.0), q),
    "dequantize": (kernels.dequantize(q, 0.5), q / 2),
    "add_int8": (kernels.add_int8(q, q, (0.75, -0.75, 3.0)), q * 0 + 3),
    "pointwise_int8": (kernels.pointwise_int8(q, eye, None, ones), q),
    "conv2d_int8": (kernels.conv2d_int8(q, eye, None, ones), q),
    "depthwise_int8": (kernels.depthwise_int8(q, one, None, ones), q),
    "pool2d_int8": (kernels.max_pool2d_int8(q, (9, 7)), q.max((2, 3), keepdims=True)),
    "global_avg_pool_int8": (kernels.global_avg_pool_int8(q, 63.0), q.sum((2, 3), keepdims=True).clip(-128, 127)),
}
for operator, (result, expected) in results.items():
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5, err_msg=operator)
assert set(results) == set(kernels.OPERATORS) and len(weights.labels("imagenet")) == 1000
net = Network(weights.model("digits"))
assert net(random.standard_normal((1, 3, 48, 48), dtype=np.float32)).shape == (1, 10)
print("on the", cuda.backend())
"""


# Both names in one program, and the command line under each
BOTH = """
import pickle, runpy, sys
import common.kernels.add, mobilenet_engine.kernels.add
from mobilenet_engine import topology
import common.topology
assert common is mobilenet_engine and common.kernels.add is mobilenet_engine.kernels.add
graph = topology.build()
assert pickle.loads(pickle.dumps(graph, 0).replace(b"cmobilenet_engine.", b"ccommon.")) == graph
for name in ("common", "mobilenet_engine"):
    sys.argv = [name, "topology"]
    try:
        runpy.run_module(name, run_name="__main__")
    except SystemExit as end:
        assert end.code in (None, 0)
"""

# A program of a user who has mypy look at all types
TYPED = """
import numpy as np
import numpy.typing as npt
from mobilenet_engine import cuda, kernels, topology, weights
from mobilenet_engine.network import Kernels, Network


def classes(images: npt.NDArray[np.float32]) -> list[int]:
    network = Network(weights.model("digits"), Kernels(dtype="fp16"))
    return [int(i) for i in network(kernels.relu6(images)).argmax(1)]


def sectors(source: str, n: int) -> int:
    kernel = cuda.RawKernel(source, "copy")
    x, y = cuda.zeros(n, np.float32), cuda.empty(n, np.float32)
    return cuda.trace(kernel, (1,), (n,), (x, y, np.int32(n))).global_loads.sectors


def macs(width: float) -> int:
    return topology.build(width=width).macs
"""
WRONG = """
reveal_type(topology.build().macs)
topology.build(widht=1.0)
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """(sdist, wheel): the sdist from a copy, so that the build leaves nothing in the repository; the wheel from it."""
    pytest.importorskip("hatchling", reason="both are built without a download: pip install hatchling")
    copy, out = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("built")
    for folder in ("common", "mobilenet_engine"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    hatch = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(out)]
    subprocess.run(hatch, cwd=copy, check=True, capture_output=True)
    (sdist,) = out.glob("*.tar.gz")
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    done = subprocess.run([*pip, "-w", str(out), str(sdist)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = out.glob("*.whl")
    return sdist, wheel


@pytest.fixture(scope="module")
def python(built, tmp_path_factory):
    """The Python of a new environment with the wheel, and with this one's libraries but not its .pth files: an
    editable installation is not seen."""
    environment = tmp_path_factory.mktemp("environment")
    venv.create(environment, with_pip=False)
    bin_folder = environment / ("Scripts" if os.name == "nt" else "bin")
    python = next(bin_folder.glob("python*"))
    site = Path(sysconfig.get_path("purelib", vars={"base": str(environment)}))
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps", "--no-index"]
    subprocess.run([*pip, str(built[1])], check=True)
    return python


def run(*command, folder):
    """What a command prints, run in a folder outside of the repository."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    variables |= {"COURSE_DEVICE": "simulator", "COURSE_CACHE": str(folder / "cache")}
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def files(*folders):
    """The files of the repository's folders, relative to it."""
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
    return {path.relative_to(ROOT).as_posix() for path in paths if "__pycache__" not in path.parts}


def test_sdist_and_wheel_hold_every_source_and_data_file(built):
    sdist, wheel = built
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    assert packed - {"PKG-INFO", ".gitignore"} == files("common", "mobilenet_engine") | {
        "pyproject.toml", "README.md", "LICENSE"
    }  # fmt: skip
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    first = {name.replace("common/", "mobilenet_engine/", 1) for name in files("common")}
    assert packed == first | {"common/__init__.py"} and "mobilenet_engine/py.typed" in packed


def test_the_wheel_carries_its_license_and_what_it_needs(built):
    archive = zipfile.ZipFile(built[1])
    (metadata,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
    text = archive.read(metadata).decode()
    assert "License-Expression: Apache-2.0" in text and "Requires-Dist: numpy" in text
    assert any(name.endswith("licenses/LICENSE") for name in archive.namelist())


@seldom(6)
def test_every_operator_runs_in_a_project_that_has_its_own_package_common(python, tmp_path):
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "__init__.py").write_text("MINE = True\n")
    (tmp_path / "mine.py").write_text(OUTSIDE)
    assert run(python, "mine.py", folder=tmp_path) == "on the simulator"


@seldom(3)
def test_in_other_projects_both_names_are_one_package(python, tmp_path):
    printed = run(python, "-c", BOTH, folder=tmp_path).splitlines()
    once = run(python.with_name("mobilenet-engine"), "topology", folder=tmp_path).splitlines()
    assert printed == once + once and any("300.8 million multiply-accumulates" in line for line in once)


@long  # mypy reads the package and NumPy: ten seconds and more
def test_a_users_program_is_typed(python, tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "typed.py").write_text(TYPED)
    (tmp_path / "wrong.py").write_text(TYPED + WRONG)
    mypy = [sys.executable, "-m", "mypy", "--strict", "--python-executable", str(python)]
    run(*mypy, "typed.py", folder=tmp_path)
    said = subprocess.run([*mypy, "wrong.py"], cwd=tmp_path, capture_output=True, text=True).stdout
    assert 'Revealed type is "int"' in said.replace("builtins.", "") and 'Unexpected keyword argument "widht"' in said
