"""The package as others get it: built, installed where this repository is not, and used from another folder."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# A student's own project: every operator, and the trained network, in thirty lines.
OUTSIDE = """
import sys
import numpy as np
import common
from common import cuda, kernels, topology, weights
from common.network import Network

assert common.__file__.startswith(sys.prefix), common.__file__
random = np.random.default_rng(0)
x = random.standard_normal((2, 4, 9, 7), dtype=np.float32)
a, b = x.reshape(8, 63), random.standard_normal((63, 5), dtype=np.float32)
columns = kernels.im2col(x, 3, padding=1)
weight = random.standard_normal((6, 4, 3, 3), dtype=np.float32)
center = random.standard_normal((4, 1, 1, 1), dtype=np.float32)
results = {
    "activate": (kernels.sigmoid(x), 1 / (1 + np.exp(-x))),
    "multiply": (kernels.multiply(x, x), x * x),
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
    "winograd": (kernels.winograd(x, weight, None, 1).reshape(2, 6, 63), weight.reshape(6, 36) @ columns),
    "winograd_weight": (kernels.winograd_weight(weight)[0, :4, :6], weight[:, :, 0, 0].T),
}
for operator, (result, expected) in results.items():
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5, err_msg=operator)
assert set(results) == set(kernels.OPERATORS) and len(weights.labels("imagenet")) == 1000
net = Network(weights.model("digits"))
assert net(random.standard_normal((1, 3, 48, 48), dtype=np.float32)).shape == (1, 10)
print("on the", cuda.backend())
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a copy, so that the build leaves nothing in the repository."""
    pytest.importorskip("setuptools", reason="the wheel is built without a download: pip install setuptools")
    copy, out = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT / "common", copy / "common", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    done = subprocess.run([*pip, "-w", str(out), str(copy)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = out.glob("*.whl")
    return built


def test_the_wheel_holds_every_source_and_data_file(wheel):
    paths = [path for path in (ROOT / "common").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert packed == {path.relative_to(ROOT).as_posix() for path in paths}


def test_the_wheel_carries_its_license_and_what_it_needs(wheel):
    archive = zipfile.ZipFile(wheel)
    (metadata,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
    text = archive.read(metadata).decode()
    assert "License-Expression: Apache-2.0" in text and "Requires-Dist: numpy" in text
    assert any(name.endswith("licenses/LICENSE") for name in archive.namelist())


def test_every_operator_runs_outside_the_repository(wheel, tmp_path):
    """In a new environment with this one's libraries, but not its .pth files: an editable install is not seen."""
    environment = tmp_path / "venv"
    venv.create(environment, with_pip=False)
    bin_folder = environment / ("Scripts" if os.name == "nt" else "bin")
    python = next(bin_folder.glob("python*"))
    site = Path(sysconfig.get_path("purelib", vars={"base": str(environment)}))
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(pip, check=True)

    script = tmp_path / "project" / "mine.py"
    script.parent.mkdir()
    script.write_text(OUTSIDE)
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    variables |= {"COURSE_DEVICE": "simulator", "COURSE_CACHE": str(tmp_path / "cache")}
    done = subprocess.run([python, script], cwd=script.parent, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "on the simulator"
