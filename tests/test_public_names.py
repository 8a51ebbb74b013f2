"""The names that docs/own_project.md promises: each is there, and says what it is."""

import importlib
import inspect

import pytest

from common.lab import online


@pytest.mark.parametrize("name", online.PUBLIC)
def test_every_public_name_is_documented(name):
    module = importlib.import_module(f"common.{name}")
    assert len(set(module.__all__)) == len(module.__all__)
    for each in module.__all__:
        value = getattr(module, each)
        if inspect.isroutine(value) or inspect.isclass(value):
            assert value.__doc__ and not value.__doc__.startswith(f"{each}("), each  # not a dataclass's signature
            if inspect.isfunction(value):
                assert "return" in value.__annotations__, each
