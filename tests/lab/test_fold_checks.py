"""What notebook 02/2 says of a fold: right ones, wrong ones, and those that are the reference's."""

import pytest
import torch
from test_milestones import write_engine, wrong

from common import topology, weights
from common.lab import engine, fold_checks


@pytest.fixture
def opened(tmp_path):
    """Opens an engine whose weights.py has this text, and says which one."""

    def open_it(text: str) -> None:
        place = write_engine(tmp_path / "engine", weights=text)
        engine.open_engine(lambda: place)
        fold_checks.folder = lambda: place

    before = fold_checks.folder
    yield open_it
    fold_checks.folder = before
    engine.open_engine()


def own(text: str) -> str:
    return text.replace(" (reference)", "")


def test_a_right_fold(opened, capsys):
    opened(own(engine.reference_text("weights.py")))
    fold_checks.try_fold()
    said = capsys.readouterr().out
    assert said.startswith("✓ fold: in 2 small networks") and "reference" not in said
    assert max(map(len, said.splitlines())) <= 95


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (("fold",), "But fold is the reference's; yours is not saved yet."),
        (("fold_conv_bn", "fold"), "But fold_conv_bn and fold are the reference's; yours are not saved yet."),
    ],
)
def test_a_fold_that_is_the_references(parts, said, opened, capsys):
    text = own(engine.reference_text("weights.py"))
    for part in parts:
        text = text.replace(f"# -- part: {part}\n", f"# -- part: {part} (reference)\n")
    opened(text)
    fold_checks.try_fold()
    assert said in capsys.readouterr().out


KEPT = "            folded[layer.output] = arrays[layer.output]\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (wrong("weights", "other_readers_not_asked"), "a network with a fork: after fold:"),
        (wrong("weights", "readers_not_renamed"), "a small MobileNetV2: after fold:"),
        (wrong("weights", "mean_forgotten"), "a small MobileNetV2: fold: the Conv2d"),
        (
            engine.reference_text("weights.py").replace(
                KEPT, KEPT.replace("f", 'if layer.op != "Linear":\n                f', 1)
            ),
            "`folded` has no entry for 'classifier.1', the output of a Linear that stays",
        ),
    ],
)
def test_a_wrong_fold(text, said, opened, capsys):
    opened(text)
    fold_checks.try_fold()
    shown = capsys.readouterr().out
    assert shown.startswith("✗ ") and said in shown


def test_one_of_the_forks_batch_norms_stays():
    graph, parameters = fold_checks.forked()
    folded, _ = weights.fold_batch_norm(graph, parameters)
    assert [layer.output for layer in folded if isinstance(layer, topology.BatchNorm2d)] == ["forked.norm"]


def test_layer_by_layer(opened):
    graph = topology.build(0.35, 10, 32, batch_norm=True)
    parameters = weights.seeded_parameters(graph)
    network = topology.MobileNetV2(0.35, 10).eval()
    state = {name: torch.from_numpy(array) for name, array in parameters.items()}
    network.load_state_dict(state, strict=False)
    x = torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(3))
    opened(engine.reference_text("weights.py"))
    with torch.no_grad():
        layers, arrays = fold_checks.folded_by_engine(graph, parameters)
        errors = fold_checks.layer_errors(network, arrays, x)
        assert layers == 99 and len(arrays) == 106
        assert {len(found) for found in errors.values()} == {52}
        assert max(errors[torch.float64].values()) < 1e-6
        arrays["features.0.0.bias"] += 1
        errors = fold_checks.layer_errors(network, arrays, x)
    assert [name for name, error in errors[torch.float64].items() if error > 1e-6] == ["features.0.0"]
    text = engine.reference_text("weights.py")
    opened(text.replace(KEPT, KEPT.replace("f", 'if layer.op != "Linear":\n                f', 1)))
    with pytest.raises(AssertionError, match=r"`folded` has no entry for 'classifier\.1'"):
        fold_checks.folded_by_engine(graph, parameters)
