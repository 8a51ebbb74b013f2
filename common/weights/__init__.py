"""The parameters of a network: read, written, folded, trained, seeded, downloaded (chapter 02).

    sources     the sources of weights, digits, seeded and imagenet, and their networks as ONNX models
    extraction  the initializers of an ONNX file
    folding     batch-norm folding
    commands    the commands `weights make|extract|check`
    files       .npz files, exact to the bit
    checking    compares parameters with a network's layers
    digits      the handwritten digits: split by writer, and converted to the network's input
    seeded      random weights with which activations neither vanish nor explode
    imagenet    torchvision's checkpoint

All names in `__all__` can be imported from here; PyTorch and onnx are imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from .checking import Finding, check, findings
from .digits import Split, digit_from_picture, digits_input, digits_split
from .files import Parameters, load, save
from .folding import fold, fold_batch_norm, fold_state_dict
from .seeded import seeded_parameters
from .sources import SOURCES, Source, labels, model, network, resnet20_model, source

if TYPE_CHECKING:
    from .extraction import extract
    from .imagenet import imagenet_parameters

__all__ = [
    "SOURCES",
    "Finding",
    "Parameters",
    "Source",
    "Split",
    "check",
    "digit_from_picture",
    "digits_input",
    "digits_split",
    "extract",
    "findings",
    "fold",
    "fold_batch_norm",
    "fold_state_dict",
    "imagenet_parameters",
    "labels",
    "load",
    "model",
    "network",
    "resnet20_model",
    "save",
    "seeded_parameters",
    "source",
]

# Names whose module needs PyTorch or onnx: imported on first use (PEP 562).
_LAZY = {"extract": "extraction", "imagenet_parameters": "imagenet"}


def __getattr__(name: str):
    if name in _LAZY:
        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
