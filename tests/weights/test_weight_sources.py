"""The sources: what they promise about shapes, ranges, reproducibility and downloads."""

import hashlib
import subprocess
import sys
import urllib.error
from functools import partial

import numpy as np
import pytest
import torch
from tiers import seed

from common import images, weights
from common.topology import MobileNetV2, build, read_onnx
from common.weights import imagenet


def test_importing_the_package_is_light():
    code = "import common.weights, sys; print([m for m in ('torch', 'sklearn', 'onnx') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["digits", "seeded"])
@pytest.mark.parametrize("size", [None, 65])
def test_models_are_the_folded_mobilenet(name, size):
    source = weights.source(name)
    graph, parameters = weights.network(name, size)
    assert graph == build(source.width, source.num_classes, size or source.input_size)
    weights.check(graph, parameters)
    assert all(array.dtype == np.float32 for array in parameters.values())
    model = weights.model(name, size)
    read = read_onnx(model)
    assert read.input_shape == (1, 3, *(size or source.input_size,) * 2)
    assert read.census() == {
        "Conv2d": 52,
        "ReLU6": 35,
        "ResidualAdd": 10,
        "GlobalAveragePool": 1,
        "Linear": 1,
    }
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"


def test_labels():
    assert weights.labels("digits") == list("0123456789")
    assert weights.labels("seeded") is None
    names = weights.labels("imagenet")
    assert names is not None and len(names) == len(set(names)) == 1000
    assert (names[0], names[652], names[999]) == ("tench", "military uniform", "toilet tissue")


def test_unknown_source():
    for call in (weights.source, weights.network, weights.model, weights.labels):
        with pytest.raises(ValueError, match="no weights called 'coco', only digits, seeded, imagenet"):
            call("coco")


# -- seeded ------------------------------------------------------------------------------------------------


def digest(parameters: weights.Parameters) -> str:
    total = hashlib.sha256()
    for name, array in parameters.items():
        total.update(f"{name} {array.dtype} {array.shape} ".encode() + array.tobytes())
    return total.hexdigest()


def test_seeded_parameters_never_change():
    """Results that others recorded with them would no longer be comparable."""
    parameters = weights.seeded_parameters(build(batch_norm=True))
    assert digest(parameters) == "6b26664e0cc80d759dcd39a48851089de9add34164d4c77ff7cd53560d99225c"
    assert digest(weights.network("seeded")[1]) == "23072d2cd6137914df582260faded98acded06c9a99cef797583cecf12a8c6be"
    assert digest(weights.network("seeded", 96)[1]) == digest(weights.network("seeded")[1])


def test_other_seeds_give_other_parameters():
    graph = build(0.35, 10, 32, batch_norm=True)
    one, two = weights.seeded_parameters(graph, 1), weights.seeded_parameters(graph, 2)
    assert not any(np.array_equal(one[name], two[name]) for name in one)


@pytest.fixture(scope="module")
def seeded_run():
    """Every activation of the seeded network, for crops of the sample photo and for noise."""
    photo = images.read(images.sample())
    width, height = photo.size
    pictures = [
        images.to_input(photo),
        images.to_input(photo.crop((0, 0, width, height // 2))),
        images.to_input(photo.crop((0, height // 2, width, height))),
        np.random.default_rng(seed()).standard_normal((1, 3, 224, 224)).astype(np.float32),
    ]
    module = MobileNetV2(batch_norm=False).eval()
    _, parameters = weights.network("seeded")
    module.load_state_dict({name: torch.from_numpy(array) for name, array in parameters.items()})
    seen: dict[str, tuple[torch.nn.Module, torch.Tensor]] = {}

    def remember(name: str, layer: torch.nn.Module, inputs: tuple, output: torch.Tensor) -> None:
        seen.setdefault(name, (layer, output.clone()))  # the first run, in float32

    for name, layer in module.named_modules():
        if isinstance(layer, torch.nn.Conv2d | torch.nn.ReLU6):
            layer.register_forward_hook(partial(remember, name))
    x = torch.from_numpy(np.concatenate(pictures))
    with torch.inference_mode():
        logits = module(x)
        exact = module.double()(x[::2].double())
    return seen, logits.numpy(), exact.numpy()


def test_seeded_activations_are_sane_in_every_layer(seeded_run):
    seen, logits, _ = seeded_run
    assert len(seen) == 52 + 35
    for name, (layer, output) in seen.items():
        for picture in output:
            assert 0.05 < picture.std() < 20, name
            if isinstance(layer, torch.nn.ReLU6):
                assert 0.05 < (picture == 0).double().mean() < 0.6, name
                assert 0 < (picture == 6).double().mean() < 0.1, name
    assert np.isfinite(logits).all() and 1 < logits.std() < 10


def test_seeded_scores_tell_pictures_apart(seeded_run):
    _, logits, exact = seeded_run
    photo, top, bottom, _ = logits
    assert len({scores.argmax() for scores in logits}) >= 3
    assert np.abs(np.corrcoef(logits)[~np.eye(4, dtype=bool)]).max() < 0.95
    assert np.linalg.norm(top - bottom) > 0.5 * np.linalg.norm(photo)
    # and float32 is enough to compute them: 1e-5 is what engines have to keep
    assert (np.linalg.norm(logits[::2] - exact, axis=1) <= 5e-6 * np.linalg.norm(exact, axis=1)).all()


# -- imagenet ----------------------------------------------------------------------------------------------


@pytest.fixture
def torch_home(tmp_path, monkeypatch):
    """An empty download folder, and no network."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr(torch.hub, "_hub_dir", None)

    def refuse(*args, **kwargs):
        raise urllib.error.URLError("no network in tests")

    monkeypatch.setattr(torch.hub, "urlopen", refuse)
    return tmp_path


@pytest.fixture
def published(tmp_path, monkeypatch):
    """A stand-in for the checkpoint at a file:// address, its hash in its name as PyTorch's have it."""
    torch.manual_seed(0)
    state_dict = MobileNetV2().state_dict()
    folder = tmp_path / "server"
    folder.mkdir()
    torch.save(state_dict, folder / "checkpoint.pth")
    content = (folder / "checkpoint.pth").read_bytes()
    file = folder / f"mobilenet_v2-{hashlib.sha256(content).hexdigest()[:8]}.pth"
    file.write_bytes(content)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(torch.hub, "_hub_dir", None)
    monkeypatch.setattr(imagenet, "URL", file.as_uri())
    return file, state_dict


def test_the_address_is_torchvisions():
    assert imagenet.URL == "https://download.pytorch.org/models/mobilenet_v2-7ebf99e0.pth"
    assert weights.source("imagenet").resize == 232


def test_checkpoint_is_downloaded_mapped_and_kept(published, capfd):
    file, state_dict = published
    parameters = weights.imagenet_parameters()
    assert set(parameters) == {name for name in state_dict if not name.endswith("num_batches_tracked")}
    for name, array in parameters.items():
        np.testing.assert_array_equal(array, state_dict[name].numpy())
    file.unlink()  # from now on from the download folder
    graph, folded = weights.network("imagenet", 64)
    weights.check(graph, folded)
    np.testing.assert_array_equal(folded["classifier.1.weight"], state_dict["classifier.1.weight"].numpy())
    expected = state_dict["features.0.0.weight"].double() / (1 + 1e-5) ** 0.5  # neutral statistics
    np.testing.assert_allclose(folded["features.0.0.weight"], expected.numpy(), rtol=1e-6)
    assert read_onnx(weights.model("imagenet")).output_shape == (1, 1000)


def test_a_download_with_another_hash_is_refused(published):
    file, _ = published
    file.write_bytes(file.read_bytes() + b"\0")
    with pytest.raises(RuntimeError, match=r"could not be downloaded .*hash"):
        weights.imagenet_parameters()
    assert not imagenet.checkpoint_path().exists()


def test_a_damaged_file_in_the_download_folder_is_refused(torch_home):
    path = imagenet.checkpoint_path()
    assert torch_home in path.parents
    path.parent.mkdir(parents=True)
    path.write_bytes(b"not the checkpoint")
    with pytest.raises(RuntimeError, match=r"mobilenet_v2-7ebf99e0\.pth is damaged: .*7ebf99e0; delete it"):
        weights.model("imagenet")


def test_offline_it_says_what_to_do_in_one_line(torch_home):
    with pytest.raises(RuntimeError) as error:
        weights.model("imagenet")
    message = str(error.value)
    assert "connect to the internet" in message and "\n" not in message
    assert f"put it at {torch_home / 'hub' / 'checkpoints' / 'mobilenet_v2-7ebf99e0.pth'}" in message


def test_nothing_but_tensors_is_unpickled(published, monkeypatch):
    """A checkpoint with the right hash and code inside: the code does not run."""
    file, _ = published

    class Attack:
        def __reduce__(self):
            return (print, ("attacked",))

    torch.save({"a": Attack()}, file)
    content = file.read_bytes()
    renamed = file.with_name(f"mobilenet_v2-{hashlib.sha256(content).hexdigest()[:8]}.pth")
    file.rename(renamed)
    monkeypatch.setattr(imagenet, "URL", renamed.as_uri())
    with pytest.raises(Exception, match=r"weights_only|Weights only"):
        weights.imagenet_parameters()
