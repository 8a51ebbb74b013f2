"""The two ways in which a model file is refused. Both are ValueErrors with one sentence to show."""

MAX_MESSAGE = 300  # characters: what a file names can be of any length


class ModelError(ValueError):
    """A reason as one printable line, whatever text from the file it quotes."""

    def __init__(self, reason: object):
        text = "".join(c if c.isprintable() else "?" for c in str(reason))
        super().__init__(text if len(text) <= MAX_MESSAGE else text[: MAX_MESSAGE - 1] + "…")


class InvalidModel(ModelError):
    """The file is broken or hostile: no correct reader could run it."""


class UnsupportedModel(ModelError):
    """The file is in order, and uses something that the layers here do not express."""
