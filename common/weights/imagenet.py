"""torchvision's MobileNetV2 checkpoint: downloaded once, verified by its hash, and read."""

import hashlib
import http.client
import socket
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import torch

from .files import Parameters

# MobileNet_V2_Weights.IMAGENET1K_V2 of torchvision (torchvision/models/mobilenetv2.py). The digits after the
# dash are the beginning of the file's SHA-256.
URL = "https://download.pytorch.org/models/mobilenet_v2-7ebf99e0.pth"
TIMEOUT = 10  # s without an answer from the server


def imagenet_parameters() -> Parameters:
    """The checkpoint's float32 parameters, named as in the file, with batch-norms.

    The file is cached in PyTorch's download folder ($TORCH_HOME/hub/checkpoints). Only tensors are unpickled
    (weights_only). RuntimeError, with advice, if the file cannot be downloaded or is not the expected one.
    """
    file = checkpoint_path()
    if not file.exists():
        download(file)
    check_hash(file)  # PyTorch checks the hash of a download only, not of an existing file
    state_dict = torch.hub.load_state_dict_from_url(URL, map_location="cpu", check_hash=True, weights_only=True)
    return {
        name: tensor.numpy().astype(np.float32)
        for name, tensor in state_dict.items()
        if not name.endswith("num_batches_tracked")  # a counter, used in training only
    }


def checkpoint_path() -> Path:
    """The file's path in PyTorch's download folder."""
    return Path(torch.hub.get_dir()) / "checkpoints" / Path(urlsplit(URL).path).name


def download(file: Path) -> None:
    """Download URL to `file`, which appears only complete and with the right hash. RuntimeError otherwise."""
    patience = socket.getdefaulttimeout()
    socket.setdefaulttimeout(TIMEOUT)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        torch.hub.download_url_to_file(URL, str(file), expected_hash(file))
    except (OSError, http.client.HTTPException, RuntimeError) as error:
        raise RuntimeError(
            f"the imagenet weights could not be downloaded ({error}): connect to the internet, "
            f"or fetch {URL} elsewhere and put it at {file}"
        ) from error
    finally:
        socket.setdefaulttimeout(patience)


def expected_hash(file: Path) -> str:
    """The beginning of the file's SHA-256, from the end of its name."""
    return file.stem.rpartition("-")[2]


def check_hash(file: Path) -> None:
    """Raise RuntimeError if the file's SHA-256 does not begin as its name says."""
    expected = expected_hash(file)
    got = hashlib.sha256(file.read_bytes()).hexdigest()[: len(expected)]
    if got != expected:
        raise RuntimeError(f"{file} is damaged: its SHA-256 begins {got}, not {expected}; delete it, try again")
