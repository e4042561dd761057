"""A hook that is called when certain modules have been imported."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class ImportHook:
    """A finder in ``sys.meta_path`` that delegates the search to the other finders."""

    def __init__(self, names: Collection[str], call: Callable[[str], None]) -> None:
        self._names = frozenset(names)
        self._call = call
        self._is_removed = False

    def install(self) -> None:
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def remove(self) -> None:
        self._is_removed = True
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, name: str, path: Any = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self._names:
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(name, path, target) if find is not None else None
            if spec is not None:
                self._watch(spec)
                return spec
        return None

    def _watch(self, spec: ModuleSpec) -> None:
        loader: Any = spec.loader
        if not hasattr(loader, "exec_module"):
            return
        run = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            run(module)
            if not self._is_removed:
                self._call(module.__name__)

        # The loader object keeps its class, because other tools check it.
        loader.exec_module = exec_module
