"""Run a callback as soon as a package is imported, without importing it now."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType


def after_import(package: str, call: Callable[[], None]) -> None:
    """Call `call` once `package` has been imported; at once if it already is."""
    if package in sys.modules:
        call()
    else:
        sys.meta_path.insert(0, _Watch(package, call))


class _Watch(MetaPathFinder):
    """An import finder that finds nothing itself, but makes its package's loader call back after the import."""

    def __init__(self, package: str, call: Callable[[], None]) -> None:
        self.package, self.call = package, call

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self.package:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            loader = spec.loader
            execute = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                self.call()

            loader.exec_module = exec_module  # type: ignore[method-assign]  # of this one import
        return spec
