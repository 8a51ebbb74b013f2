"""The second name of the package: `mobilenet_engine` and `common` are the same modules, not two copies.

In the repository the package is the folder `common/`, as in the notebooks, and `mobilenet_engine` is its second name.
In the wheel it is the other way round: this file is `common/__init__.py` there, so that the package has its own name
in projects that have a folder `common/`. If the package's first name leads to such a folder, as it may with an editable
installation, the package is imported under its second name alone.
"""

import importlib
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

FIRST = {"mobilenet_engine": "common", "common": "mobilenet_engine"}[__name__]
FOLDER = Path(__file__).resolve().parents[1] / FIRST


class SecondName(MetaPathFinder, Loader):
    """Finds the package's modules under its second name, and loads each as the module of the first name."""

    def __init__(self, second: str, first: str):
        self.second, self.first = second, first

    def _named(self, name: str) -> ModuleSpec | None:
        return find_spec(self.first + name.removeprefix(self.second))

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The spec of `second.x`, if there is a module `first.x` (importlib's hook)."""
        if not name.startswith(self.second + ".") or (found := self._named(name)) is None:
            return None
        return ModuleSpec(name, self, origin=found.origin, is_package=found.submodule_search_locations is not None)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module `first.x`, imported if it has not been (importlib's hook)."""
        module = importlib.import_module(self.first + spec.name.removeprefix(self.second))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its own spec back, which importlib has just replaced (importlib's hook).

        What it has imported gets its second name at once: importlib would make a module that is imported later an
        attribute of its package, in the place of an operator of the same name.
        """
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state
        for name, loaded in list(sys.modules.items()):
            if name.startswith(self.first + "."):
                sys.modules.setdefault(self.second + name.removeprefix(self.first), loaded)

    def get_code(self, name: str) -> CodeType | None:
        """The code of `first.x`, for `python -m second.x` (runpy's hook)."""
        found = self._named(name)
        return None if found is None else found.loader.get_code(found.name)  # type: ignore[union-attr]


def first() -> ModuleType:
    """The package under its first name, or under this one if the first name leads elsewhere."""
    found = find_spec(FIRST)
    if found is not None and found.origin and Path(found.origin).resolve().parent == FOLDER:
        sys.meta_path.insert(0, SecondName(__name__, FIRST))
        return importlib.import_module(FIRST)
    spec = spec_from_file_location(__name__, FOLDER / "__init__.py", submodule_search_locations=[str(FOLDER)])
    assert spec is not None and spec.loader is not None
    package = module_from_spec(spec)
    sys.modules[__name__] = package
    spec.loader.exec_module(package)
    return package


sys.modules[__name__] = first()
