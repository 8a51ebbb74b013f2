"""The errors of reading a model file: ValueErrors with a message of one line."""

from ..text import printable

MAX_MESSAGE = 300  # characters; names in a file can have any length


class ModelError(ValueError):
    """Base class: the message is one printable line of at most MAX_MESSAGE characters, even if it quotes the file."""

    def __init__(self, reason: object):
        super().__init__(printable(reason, MAX_MESSAGE))


class InvalidModel(ModelError):
    """The file is damaged or malicious; it is not a valid ONNX model."""


class UnsupportedModel(ModelError):
    """The file is valid, but uses something that the layers of this package cannot express."""
