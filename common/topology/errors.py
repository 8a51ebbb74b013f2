"""The two ways in which a model file is refused. Both are ValueErrors with one sentence to show."""

from ..text import printable

MAX_MESSAGE = 300  # characters: what a file names can be of any length


class ModelError(ValueError):
    """A reason as one printable line of at most MAX_MESSAGE characters, whatever text from the file it quotes."""

    def __init__(self, reason: object):
        super().__init__(printable(reason, MAX_MESSAGE))


class InvalidModel(ModelError):
    """The file is broken or hostile: no correct reader could run it."""


class UnsupportedModel(ModelError):
    """The file is in order, and uses something that the layers here do not express."""
