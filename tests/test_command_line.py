"""python -m common demo, classify, compare and profile: what they print, where, and their exit status."""

import dataclasses
import re
import subprocess
import sys
import time
import urllib.error

import numpy as np
import pytest
from PIL import Image, ImageOps
from tiers import seldom

from common import cuda, images, network, topology, weights
from common.classify import as_grey
from common.network import compare as comparing
from common.network.kernels import KernelBackend


@pytest.fixture
def run(invoke):
    return invoke


def one_line(text):
    return len(text.strip().splitlines()) == 1 and "Traceback" not in text


def classes(output):
    """The classes in the order in which a table of probabilities names them."""
    return re.findall(r"^ *(?:class )?(\d+)\b.* \d+\.\d\d % *$", output, flags=re.M)


@pytest.fixture(scope="module")
def photo(tmp_path_factory):
    """A colourful picture, different in every corner."""
    path = tmp_path_factory.mktemp("photo") / "photo.png"
    y, x = np.mgrid[0:90, 0:120]
    pixels = np.stack([x * 2, y * 2, 120 + 100 * np.sin(x * y / 300)], -1).astype(np.uint8)
    Image.fromarray(pixels).save(path)
    return path


@pytest.fixture
def few_digits(monkeypatch):
    """Twenty held-out digits, to be quick."""
    split = weights.digits_split()
    few = dataclasses.replace(split, test_images=split.test_images[:20], test_labels=split.test_labels[:20])
    monkeypatch.setattr(weights, "digits_split", lambda: few)


# classify


def test_without_arguments_it_reads_the_held_out_digits(run):
    result = run("classify", "--count", 3)
    assert result.exit_code == 0
    assert len(re.findall(r"label \d, read as \d", result.stdout)) == 3
    right = re.search(r"(\d+) of all 382 held-out digits read correctly \(kernels\)", result.stdout)
    assert right and int(right[1]) >= 0.98 * 382


@seldom(6)
def test_pictures_of_every_mode_and_a_broken_one(run, photo, tmp_path):
    """The broken one is a line on standard error and the exit status; the others are shown."""
    picture = Image.open(photo)
    good = {"grey.png": "L", "alpha.png": "RGBA", "cmyk.jpg": "CMYK", "palette [a].gif": "P"}
    for name, mode in good.items():
        picture.convert(mode).save(tmp_path / name)
    (tmp_path / "broken.png").write_bytes(photo.read_bytes()[:700])
    names = ["broken.png", *good, "missing.png"]
    result = run("classify", *[tmp_path / name for name in names], "--weights", "seeded", "--top", 2)
    assert result.exit_code == 2
    errors = result.stderr.strip().splitlines()
    assert len(errors) == 2
    assert str(tmp_path / "broken.png") in errors[0] and str(tmp_path / "missing.png") in errors[1]
    assert all(str(tmp_path / name) in result.stdout for name in good)
    assert len(classes(result.stdout)) == 2 * len(good)
    assert "mean nothing" in result.stdout


@seldom(6)
def test_a_picture_turned_by_its_exif_is_upright(run, photo, tmp_path):
    upright, turned = Image.open(photo), tmp_path / "turned.png"
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held so that the picture must be turned by 90° clockwise
    upright.transpose(Image.Transpose.ROTATE_90).save(turned, exif=exif)
    tables = [run("classify", path, "--weights", "seeded").stdout.replace(str(path), "") for path in (photo, turned)]
    assert tables[0] == tables[1]


def test_only_broken_pictures_say_nothing_about_classes(run, tmp_path):
    result = run("classify", tmp_path / "missing.png", "--weights", "seeded")
    assert result.exit_code == 2 and one_line(result.stderr) and "mean nothing" not in result.stdout


def test_a_picture_that_is_a_thin_line_is_a_one_line_error(run, tmp_path):
    Image.new("RGB", (1, 60000)).save(tmp_path / "line.png")
    result = run("classify", tmp_path / "line.png", "--weights", "seeded")
    assert result.exit_code == 2 and one_line(result.stderr) and "line.png" in result.stderr


def test_pictures_of_digits_are_read(run, tmp_path):
    """Digits of the dataset, enlarged, on a sheet with a margin; light on dark as well as dark on light."""
    split = weights.digits_split()
    paths = [tmp_path / f"{i}.png" for i in range(10)]
    for i, path in enumerate(paths):
        sheet = Image.new("L", (200, 200), 255)
        sheet.paste(
            Image.fromarray(as_grey(split.test_images[i])).resize((160, 160), Image.Resampling.BICUBIC), (20, 20)
        )
        (ImageOps.invert(sheet) if i % 2 else sheet).save(path)
    result = run("classify", *paths, "--weights", "digits", "--top", 3)
    assert result.exit_code == 0
    best = classes(result.stdout)[::3]
    assert sum(c == str(label) for c, label in zip(best, split.test_labels[:10], strict=True)) >= 9


def test_an_empty_picture_shows_no_digit(run, tmp_path):
    Image.new("L", (50, 50), 200).save(tmp_path / "blank.png")
    result = run("classify", tmp_path / "blank.png", "--weights", "digits")
    assert result.exit_code == 2 and one_line(result.stderr) and "blank.png: there is no digit" in result.stderr


def test_without_pictures_the_full_size_network_gets_the_sample_photo(run):
    result = run("classify", "--weights", "seeded")
    assert result.exit_code == 0
    assert images.sample().name in result.stdout and len(classes(result.stdout)) == 5
    assert "classes have no names and mean nothing" in result.stdout


@pytest.mark.parametrize("backend", ["kernels", "torch", "onnxruntime"])
def test_a_network_of_ones_own(run, photo, tmp_path, backend):
    path = tmp_path / "own.onnx"
    graph = topology.build(0.35, 7, (64, 96), batch_norm=True)
    path.write_bytes(topology.write_onnx(graph, weights.seeded_parameters(graph)).SerializeToString())
    result = run("classify", photo, "--onnx", path, "--backend", backend)
    assert result.exit_code == 0
    assert len(classes(result.stdout)) == 5 and {int(c) for c in classes(result.stdout)} <= set(range(7))
    assert "mean nothing" not in result.stdout  # nobody but its maker knows


def test_a_network_for_grey_pictures_is_refused(run, photo, tmp_path):
    path = tmp_path / "grey.onnx"
    graph = topology.build(0.35, 7, 32, in_channels=1, batch_norm=True)
    path.write_bytes(topology.write_onnx(graph, weights.seeded_parameters(graph)).SerializeToString())
    result = run("classify", photo, "--onnx", path)
    assert result.exit_code == 2 and one_line(result.stderr) and "3 channels" in result.stderr


@pytest.mark.parametrize("command", ["classify", "compare"])
def test_a_file_that_is_no_network(run, tmp_path, command):
    (tmp_path / "broken.onnx").write_bytes(b"not a network")
    for name in ("broken.onnx", "missing.onnx"):
        result = run(command, "--onnx", tmp_path / name)
        assert result.exit_code == 2 and one_line(result.stderr) and name in result.stderr


@pytest.mark.parametrize("command", ["classify", "compare"])
def test_unknown_weights(run, command):
    result = run(command, "--weights", "cifar")
    assert result.exit_code == 2 and one_line(result.stderr)
    assert "'cifar'" in result.stderr and "digits, seeded, imagenet" in result.stderr


def test_unknown_backend(run, photo):
    result = run("classify", photo, "--backend", "tpu")
    assert result.exit_code == 2 and one_line(result.stderr) and "kernels, cudnn, torch, onnxruntime" in result.stderr


def test_weights_and_onnx_together(run, photo):
    result = run("classify", photo, "--weights", "seeded", "--onnx", "some.onnx")
    assert result.exit_code == 2 and one_line(result.stderr) and "--onnx" in result.stderr


@pytest.mark.parametrize("command", ["classify", "compare"])
def test_imagenet_offline_says_what_to_do(run, monkeypatch, tmp_path, command):
    import torch

    def offline(*arguments, **options):
        raise urllib.error.URLError("no network here")

    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr(torch.hub, "load_state_dict_from_url", offline)
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail(f"waits for {seconds} s, as if to try again"))
    result = run(command, "--weights", "imagenet")
    assert result.exit_code == 2 and one_line(result.stderr)
    assert "imagenet" in result.stderr and "https://" in result.stderr and str(tmp_path) in result.stderr


# compare


def test_backends_that_agree(run):
    result = run("compare", "--weights", "digits", "--inputs", 2)
    assert result.exit_code == 0
    assert all(name in result.stdout for name in ("kernels", "torch", "onnxruntime", "3 of 3"))  # and the photo
    assert "outside" not in result.stdout
    result = run("compare", "--weights", "digits", "--inputs", 2, "--no-photo", "--batch", 2)
    assert result.exit_code == 0 and "2 of 2" in result.stdout


@seldom(6)
def test_an_optimized_network_is_compared(run):
    result = run("compare", "--weights", "digits", "--inputs", 2, "--no-photo", "--optimize", "throughput")
    assert result.exit_code == 0 and "outside" not in result.stdout
    result = run("compare", "--weights", "digits", "--layers", "--optimize", "latency")
    assert result.exit_code == 0 and "InvertedResidual(" in result.stdout and "inverted_residual/" in result.stdout


def test_a_network_that_takes_no_photographs(run):
    result = run("compare", "--weights", "resnet20", "--inputs", 2)
    assert result.exit_code == 0 and "2 of 2" in result.stdout


def test_a_peer_that_does_not_run_the_network_is_named(run, monkeypatch):
    for place in (network, comparing):
        monkeypatch.setattr(place, "available", lambda: ("kernels", "cudnn", "onnxruntime"))
    monkeypatch.setattr("common.cudnn.library.require", lambda: None)
    monkeypatch.setattr("common.network.cudnn.CudnnBackend.refuses", lambda self, layer: "runs nothing")
    result = run("compare", "--weights", "digits", "--inputs", 1, "--no-photo")
    assert result.exit_code == 0
    assert "cudnn is not compared: this network has layers that it does not run" in result.stdout
    assert "kernels is not" not in result.stdout and "onnxruntime is not" not in result.stdout


def test_step_by_step(run):
    result = run("compare", "--weights", "digits", "--layers", "--size", 33)
    assert result.exit_code == 0 and "every step is right on its own" in result.stdout
    lines = [line for line in result.stdout.splitlines() if re.match(r" *\d+: ", line)]
    assert len(lines) == 54 and all(line.endswith("  ok") for line in lines)
    assert "Conv2d(3, 16, 3, 2, 1, 1) + ReLU6" in lines[0] and "conv2d/" in lines[0]
    assert run("compare", "--weights", "digits", "--layers", "--backend", "torch", "--size", 33).exit_code == 0


def test_a_step_that_drifts_is_exit_status_1(run, monkeypatch):
    original = KernelBackend.run

    def off(self, operator, *arguments, **named):
        launches = original(self, operator, *arguments, **named)
        if operator != "global_avg_pool":
            return launches

        def more():
            for launch in launches:
                launch()
            named["out"] *= np.float32(1.01)

        more.name = "spoilt"
        return [more]

    monkeypatch.setattr(KernelBackend, "run", off)
    result = run("compare", "--weights", "digits", "--layers", "--size", 33)
    assert result.exit_code == 1
    assert "the first that drifts: step 52, layer pool, GlobalAveragePool" in result.stdout
    assert sum(line.endswith("  drifts") for line in result.stdout.splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--layers", "--backend", "onnxruntime"), "the reference"),
        (("--layers", "--backend", "tpu"), "backend must be one of kernels, cudnn, torch, onnxruntime, got 'tpu'"),
        (("--dtype", "fp64"), "dtype must be one of fp32, fp16, got 'fp64'"),
        (("--layout", "CHWN"), "layout must be one of NCHW, NHWC, got 'CHWN'"),
        (("--optimize", "speed"), "optimize must be one of latency, throughput or None, got 'speed'"),
        (("--optimize", "latency", "--layout", "NCHW"), "layout must be NHWC with optimize='latency', got NCHW"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_comparisons_that_there_are_not(run, options, message):
    result = run("compare", "--weights", "digits", "--inputs", 1, *options)
    assert result.exit_code == 2 and one_line(result.stderr) and message in result.stderr


# tune


def test_tiles_are_not_tuned_without_a_gpu(run):
    if cuda.backend() == "gpu":
        pytest.skip("is about the simulator")
    result = run("tune", "--weights", "digits", "--batch", 1)
    assert result.exit_code == 2 and one_line(result.stderr) and "nothing is timed on the simulator" in result.stderr


def test_tuning(run, monkeypatch, tmp_path):
    """Options reach it; a candidate that is wrong is exit status 1."""
    from common.bench import tuning
    from common.optimize.tiles import Found

    given, wrong = [], []

    def tune(*arguments):
        given.append(arguments)
        return [Found(None, None, 1.0, 1.0, 1.0, wrong=tuple(wrong))]

    monkeypatch.setattr(tuning, "tune", tune)
    path = tmp_path / "tiles.json"
    for status in (0, 1):
        wrong += ["7×7: a relative error of 1"] * status
        options = ("--batch", 2, "--batch", 8, "--dtype", "fp16", "--tried", 3, "--save-to", path)
        result = run("tune", "--weights", "digits", *options)
        assert result.exit_code == status
        assert given[-1][1:] == ((2, 8), ("fp16",), 3, path)


def test_tuning_within_the_network(run, monkeypatch, tmp_path):
    from common.bench import tuning_in_network
    from common.bench.tuning_in_network import KEPT, WRONG, Trial

    given, verdicts = [], [KEPT]

    def tune(*arguments):
        given.append(arguments)
        return [Trial(None, None, None, 1.0, 2.0, verdict) for verdict in verdicts]

    monkeypatch.setattr(tuning_in_network, "tune", tune)
    paths = [tmp_path / name for name in ("tiles.json", "candidates.csv", "trials.csv")]
    options = ("--save-to", paths[0], "--times", paths[1], "--trials", paths[2])
    assert run("tune", "--in-network", 30, "--batch", 8, "--dtype", "fp16", "--tried", 4, *options).exit_code == 0
    assert given[-1][1:] == ((8,), ("fp16",), 30, 4, *paths)
    verdicts.append(WRONG)
    assert run("tune", "--in-network", 1, "--weights", "digits").exit_code == 1
    assert given[-1][1:] == ((1, 8, 32, 256), ("fp32", "fp16"), 1, 12, None, None, None)


@pytest.mark.parametrize(
    ("options", "message"),
    [(("--dtype", "int8"), "dtype must be one of fp32, fp16, got 'int8'"), (("--onnx", "none.onnx"), "none.onnx")],
    ids=["dtype", "file"],
)
def test_what_cannot_be_tuned(run, options, message):
    result = run("tune", *options)
    assert result.exit_code == 2 and one_line(result.stderr)
    assert message in result.stderr or "nothing is timed" in result.stderr


# profile


def test_a_profile_in_two_placements(run, tmp_path):
    table, picture = tmp_path / "rows.csv", tmp_path / "steps.png"
    result = run(
        "profile", "--weights", "resnet20", "--runs", 2, "--placement", "cpu", "--placement", "*.conv1",
        "--csv", table, "--plot", picture,
    )  # fmt: skip
    assert result.exit_code == 0
    assert "placement cpu, 2 runs on the CPU" in result.stdout and "placement *.conv1, 2 runs on" in result.stdout
    assert len([line for line in result.stdout.splitlines() if re.match(r" *\d+: ", line)]) == 46
    for number in (1, 2):
        lines = (tmp_path / f"rows-{number}.csv").read_text().splitlines()
        assert lines[0].startswith("index,layer,step,where,runs_as,mean_ms") and len(lines) == 24
    with Image.open(picture) as image:
        assert image.width > 500


def test_a_profile_of_a_file(run, tmp_path):
    path = tmp_path / "mine.onnx"
    path.write_bytes(weights.model("digits", 32).SerializeToString())
    result = run("profile", "--onnx", path, "--runs", 1, "--batch", 2, "--csv", tmp_path / "one.csv")
    assert result.exit_code == 0 and "input 2 × 3 × 32 × 32, placement gpu" in result.stdout
    assert (tmp_path / "one.csv").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--placement", "*.conv9"), "'*.conv9'"),
        (("--csv", "no-such-folder/rows.csv"), "no-such-folder"),
        (("--plot", "steps.docx"), "docx"),
        (("--weights", "cifar"), "'cifar'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_profiles_that_there_are_not(run, options, message):
    result = run("profile", "--weights", "resnet20", "--runs", 1, *options)
    assert result.exit_code == 2 and one_line(result.stderr) and message in result.stderr


def test_times_of_the_simulator_are_not_saved(run):
    if cuda.backend() == "gpu":
        pytest.skip("kernels run on a GPU here")
    result = run("profile", "--weights", "resnet20", "--runs", 1, "--save")
    assert result.exit_code == 2 and "simulator" in result.stderr


def test_a_backend_that_is_off_is_exit_status_1(run, monkeypatch):
    original = KernelBackend.__call__
    monkeypatch.setattr(KernelBackend, "__call__", lambda self, x: original(self, x) * np.float32(1.001))
    result = run("compare", "--weights", "digits", "--inputs", 1, "--size", 32)
    assert result.exit_code == 1 and "outside" in result.stdout


def test_an_image_size_that_is_too_small(run):
    result = run("compare", "--weights", "digits", "--inputs", 1, "--size", 0)
    assert result.exit_code == 2


# demo


def test_the_demo(run, tmp_path):
    """Every held-out digit as ONNX Runtime reads it, the contact sheet, and the photograph within the contract."""
    result = run("demo", "--out", tmp_path / "new" / "out")
    print(result.stdout)
    assert result.exit_code == 0
    assert "382 of 382 predictions are ONNX Runtime's" in result.stdout
    errors = [float(e) for e in re.findall(r"relative error (?:of the scores )?(\d\S+e[-+]\d+)", result.stdout)]
    assert len(errors) == 2 and max(errors) <= 1e-5
    assert re.search(r"\d\.\d{3} s for the picture", result.stdout)
    sheet = tmp_path / "new" / "out" / "digits.png"
    assert f"{sheet}\n" in result.stdout  # on one line, to be copied
    with Image.open(sheet) as page:
        assert page.format == "PNG" and page.width > 600 and page.height > 600
        pixels = np.asarray(page.convert("RGB")).astype(int)
    assert pixels.mean() > 200 and (pixels.max(-1) < 40).mean() > 0.02  # dark ink on white paper
    red = (pixels[..., 0] > 180) & (pixels[..., 1] < 80)
    wrong = 382 - int(re.search(r"(\d+) of 382 read correctly", result.stdout)[1])
    assert red.any() == (wrong > 0)


def test_a_demo_that_disagrees_is_exit_status_1(run, monkeypatch, few_digits, tmp_path):
    original = KernelBackend.__call__
    monkeypatch.setattr(KernelBackend, "__call__", lambda self, x: -original(self, x))
    monkeypatch.setattr("common.demo._photo", lambda console: True)
    result = run("demo", "--out", tmp_path)
    assert result.exit_code == 1 and one_line(result.stderr)


def test_a_demo_into_a_place_that_is_no_folder(run, tmp_path):
    (tmp_path / "file").write_text("")
    result = run("demo", "--out", tmp_path / "file")
    assert result.exit_code == 2 and one_line(result.stderr) and "file" in result.stderr


# as a program


def program(*arguments, code=None):
    command = [sys.executable, "-m", "common"] if code is None else [sys.executable, "-c", code]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=120)


def test_as_a_program_errors_are_lines_not_tracebacks(tmp_path):
    done = program("classify", str(tmp_path / "missing.png"), "--weights", "digits")
    assert done.returncode == 2 and one_line(done.stderr) and "missing.png" in done.stderr


def test_help_names_the_commands():
    done = program("--help")
    assert done.returncode == 0
    names = ("demo", "classify", "compare", "doctor", "energy", "images", "topology", "tune", "weights")
    assert all(name in done.stdout for name in names)


def test_importing_the_package_imports_nothing_heavy():
    code = "import sys, common; print([m for m in ('cupy', 'torch', 'onnx', 'numpy', 'PIL') if m in sys.modules])"
    assert program(code=code).stdout.strip() == "[]"
