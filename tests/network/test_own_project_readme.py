"""The fusion that chapter 05 prints for one's own project: it runs, with copies of the kernels and the condition."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from network_models import Nodes, run_onnxruntime

from common.lab import engine
from common.network import Network, registry
from common.network.compare import relative_error

CHAPTER = Path(__file__).parents[2] / "05_network"
BLOCKS = re.findall(r"```python\n(.*?)```", (CHAPTER / "README.md").read_text(encoding="utf-8"), re.DOTALL)
(CODE,) = (block for block in BLOCKS if "class ConvHardSwish" in block)


@pytest.fixture
def project(rng, tmp_path, monkeypatch):
    """The folder of the project, with a network of dense, strided, depthwise, grouped and dilated convolutions."""
    for name in ("conv_hard_swish", "depthwise_hard_swish"):
        (tmp_path / f"{name}.cu").write_text(engine.reference_text(f"kernels/{name}.cu"), encoding="utf-8")
    shutil.copy(CHAPTER / "solutions" / "fusion_condition.py", tmp_path / "conditions.py")
    monkeypatch.syspath_prepend(tmp_path)
    nodes = Nodes(rng, opset=14)
    x = nodes("HardSwish", nodes.conv("x", 3, 36, pads=[1, 1, 1, 1], strides=[2, 2]))
    x = nodes("HardSwish", nodes.conv(x, 36, 36, group=36, pads=[1, 1, 1, 1]))
    x = nodes("HardSwish", nodes.conv(x, 36, 34, k=1))
    x = nodes("HardSwish", nodes.conv(x, 34, 4, group=2))
    x = nodes("HardSwish", nodes.conv(x, 4, 5, dilations=[2, 2]))
    x = nodes("HardSwish", nodes.conv(x, 5, 6, strides=[1, 2]))
    model = nodes.model(x, ("n", 3, 29, 23))
    (tmp_path / "yours.onnx").write_bytes(model.SerializeToString())
    monkeypatch.chdir(tmp_path)
    yield model
    if "conv-hard-swish" in registry.FUSIONS:
        registry.unregister(type(registry.FUSIONS["conv-hard-swish"]))


def test_the_readmes_fusion_runs_as_it_stands(rng, project, capsys):
    names: dict = {}
    exec(CODE, names)
    assert "refused" in capsys.readouterr().out
    x = rng.standard_normal((2, 3, 29, 23), dtype=np.float32)
    net = names["net"]
    told = list(net.plan(x.shape).told)
    assert (told.count("conv_hard_swish"), told.count("depthwise_hard_swish")) == (2, 1)
    want = run_onnxruntime(project, x)
    assert relative_error(net(x), want) <= 1e-5
    refused = Network(project, layout="NHWC", passes=["conv-hard-swish"])
    assert not any(one.endswith("hard_swish") for one in refused.plan(x.shape).told)
    assert relative_error(refused(x), want) <= 1e-5


def test_the_notebook_shows_lines_of_it():
    cells = json.loads((CHAPTER / "6_your_own_network.ipynb").read_text(encoding="utf-8"))["cells"]
    shown = [
        block for cell in cells for block in re.findall(r"```python\n(.*?)```", "".join(cell["source"]), re.DOTALL)
    ]
    own = [block for block in shown if "RAW" in block]
    assert len(own) == 2 and all(block in CODE for block in own)


def test_the_shares_and_bytes_that_the_notebook_names_are_right():
    cells = json.loads((CHAPTER / "6_your_own_network.ipynb").read_text(encoding="utf-8"))["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells)
    printed = "".join("".join(out.get("text", "")) for cell in cells for out in cell.get("outputs", []))
    pairs = (
        re.findall(r"launches, ([\d,]+) kB moved", printed),
        *re.findall(r"at batch 32: ([\d,]+) kB, fused ([\d,]+) kB", printed),
    )
    one, many = (1 - int(fused.replace(",", "")) / int(apart.replace(",", "")) for apart, fused in pairs)
    assert 0.05 < one < 0.1 and "less than a tenth at batch 1" in text
    assert 0.3 < many < 1 / 3 and "nearly a third at batch 32" in text
    assert (
        "nn.Linear(576, 1024), HS()" in text
        and "1,024 numbers of 4 bytes" in text
        and f"{2 * 4 * 1024:,} bytes" in text
    )
