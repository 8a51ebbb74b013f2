"""The training script runs, is reproducible, and writes what the course can load."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tiers import long

from common import weights
from common.topology import build

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "02_weights" / "train_digits.py"


@pytest.fixture
def script():
    """The script as a module; what it sets for the whole process is set back."""
    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    spec = importlib.util.spec_from_file_location("train_digits", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(deterministic)


@long
def test_an_epoch_writes_weights_that_fit(tmp_path, script, capsys):
    out = tmp_path / "new" / "a.npz"
    command = [sys.executable, SCRIPT, "--out", out, "--epochs", "1", "--limit", "64", "--threads", "1"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert "382" in result.stdout and "trained with 64 digits" in result.stdout
    assert "epoch" in result.stderr  # the progress bar
    parameters = weights.load(out)
    assert {array.dtype.name for array in parameters.values()} == {"float16"}
    weights.check(build(0.35, 10, 48), parameters)
    assert [path.name for path in out.parent.iterdir()] == ["a.npz"]

    # the same seed gives the same file
    script.main(tmp_path / "b.npz", epochs=1, limit=64, threads=1)
    assert (tmp_path / "b.npz").read_bytes() == out.read_bytes()

    # the first digits are those of form 1 if form 0 is left out; 130 to test on
    capsys.readouterr()
    script.main(tmp_path / "c.npz", epochs=1, limit=64, threads=1, validate="0")
    assert "130" in capsys.readouterr().out
    other = weights.load(tmp_path / "c.npz")
    assert not all(np.array_equal(other[name], parameters[name]) for name in parameters)


def test_augmentation_keeps_the_range_and_draws_afresh(script):
    x = torch.from_numpy(weights.digits_input(weights.digits_split().train_images[:8]))[:, :1]
    random = torch.Generator().manual_seed(0)
    one, two = script.augment(x, random), script.augment(x, random)
    assert one.shape == x.shape and one.dtype == torch.float32
    assert one.min() >= -1 and one.max() <= 1
    assert not torch.equal(one, two)
