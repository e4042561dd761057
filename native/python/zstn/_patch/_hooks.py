"""The objects that `enable_hf` replaces, and a hook that is called when modules that
refer to them are imported."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Collection
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from . import _diffusers, _transformers
from ._openers import make_deserialize, make_safe_open


class Hooks:
    """All changes to other libraries; they can be applied and removed."""

    def __init__(self, packages: frozenset[str] | None) -> None:
        try:
            safetensors = importlib.import_module("safetensors")
        except ImportError as error:
            raise ImportError(
                "zstn.enable_hf needs safetensors: `pip install safetensors`"
            ) from error
        self.packages = packages
        self.prefer_packed = True
        # The original objects and their replacements.
        self._pairs: list[tuple[Any, Any]] = [
            (safetensors.safe_open, make_safe_open(safetensors.safe_open)),
            (safetensors.deserialize, make_deserialize(safetensors.deserialize)),
        ]
        self._methods: list[tuple[type, str, Any]] = []
        self._done: set[str] = set()
        self._loaders: dict[str, Callable[[ModuleType], None]] = {
            _transformers.MODULE: self._hook_transformers,
            _diffusers.MODELS: self._hook_diffusers,
            _diffusers.PIPELINES: self._hook_diffusers,
        }
        wanted = [name for name in self._loaders if self._includes(name)]
        self._imports = ImportHook(wanted, self.apply)

    def _includes(self, module: str) -> bool:
        return self.packages is None or module.partition(".")[0] in self.packages

    def apply(self, imported: str | None = None) -> None:
        """Replaces objects in the modules that are loaded; later imports call this
        again. `imported` is the name of a module whose import has just completed."""
        self._imports.install()
        for name, hook in self._loaders.items():
            module = sys.modules.get(name)
            if module is None or name in self._done or not self._includes(name):
                continue
            # A module that is still being imported calls this again when it is
            # complete.
            if name == imported or not getattr(module.__spec__, "_initializing", False):
                self._done.add(name)
                self._run(hook, module)
        self._rebind({id(old): new for old, new in self._pairs})

    @staticmethod
    def _run(hook: Callable[[ModuleType], None], module: ModuleType) -> None:
        try:
            hook(module)
        except Exception as error:
            # This may run at the end of an import, which must not fail because of it.
            package = module.__name__.partition(".")[0]
            warnings.warn(
                f"zstn.enable_hf does not know this version of {package} ({error!r}): give it "
                "the folder that zstn.hub.snapshot_download returns",
                stacklevel=2,
            )

    def remove(self) -> None:
        self._imports.remove()
        for owner, name, original in self._methods:
            setattr(owner, name, original)
        # Modules imported after `apply` are restored, too.
        self.packages = None
        self._rebind({id(new): old for old, new in self._pairs})

    def _rebind(self, replacements: dict[int, Any]) -> None:
        for key, module in list(sys.modules.items()):
            if not isinstance(module, ModuleType) or not self._includes(key):
                continue
            names = vars(module)
            for name, value in list(names.items()):
                other = replacements.get(id(value))
                if other is not None:
                    names[name] = other

    def _hook_transformers(self, module: ModuleType) -> None:
        pair = _transformers.hook(module, lambda: self.prefer_packed)
        if pair is not None:
            self._pairs.append(pair)

    def _hook_diffusers(self, module: ModuleType) -> None:
        for owner, name, method in _diffusers.hook(module, lambda: self.prefer_packed):
            self._methods.append((owner, name, vars(owner)[name]))
            setattr(owner, name, method)


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
