"""`mobilenet_engine` and `common` are two names of the same modules; tests/test_wheel.py has the same of the wheel."""

import importlib
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import common
import mobilenet_engine

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", ["kernels.add", "cuda.simulator.compiler", "network", "check.exercises", "__main__"])
def test_a_module_has_two_names_and_is_one(name):
    first, second = importlib.import_module(f"common.{name}"), importlib.import_module(f"mobilenet_engine.{name}")
    assert mobilenet_engine is common and first is second
    assert first.__name__ == first.__spec__.name == f"common.{name}"
    assert importlib.reload(second) is first


def test_an_operator_stays_what_its_package_exports():
    """Its module has the same name: importlib makes a module that it imports an attribute of the package."""
    importlib.import_module("mobilenet_engine.kernels.depthwise")
    assert callable(common.kernels.depthwise) and callable(mobilenet_engine.kernels.depthwise)


def test_a_name_that_is_nothing_is_named_as_it_was_written():
    with pytest.raises(ModuleNotFoundError, match=r"mobilenet_engine\.kernel'"):
        importlib.import_module("mobilenet_engine.kernel")


def test_a_pickle_of_one_name_is_read_under_the_other():
    from common import topology

    graph = topology.build()
    assert b"common.topology" in pickle.dumps(graph)
    assert pickle.loads(pickle.dumps(graph, 0).replace(b"ccommon.", b"cmobilenet_engine.")) == graph


def test_beside_another_package_common(tmp_path):
    """As with an editable installation in a project that has a folder common/."""
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "__init__.py").write_text("MINE = True\n")
    code = (
        "import numpy as np, mobilenet_engine.topology, common\n"
        "from mobilenet_engine import check, cuda\n"
        "assert common.MINE and not hasattr(common, 'topology')\n"
        "print(mobilenet_engine.topology.Graph.__module__, len(check.find_all()) > 90, cuda.cache_dir())"
    )
    variables = os.environ | {"PYTHONPATH": str(ROOT), "COURSE_CACHE": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["mobilenet_engine.topology.graph", "True", str(tmp_path)]


@pytest.mark.parametrize("module", ["mobilenet_engine", "mobilenet_engine.__main__"])
def test_the_command_line_under_the_second_name(module):
    command = [sys.executable, "-m", module, "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and "milestone" in done.stdout
