"""`zstn.enable_hf`, which lets libraries that load safetensors files load packed ones,
and the functions that undo and query it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable
from importlib.util import find_spec
from types import ModuleType
from typing import Any

__all__ = ["disable_hf", "enable_hf", "is_enabled"]

_lock = threading.RLock()
_active: Any = None


def enable_hf(
    *, prefer_packed: bool = True, modules: Iterable[str | ModuleType] | None = None
) -> None:
    """Lets transformers, diffusers, accelerate and all other code that uses safetensors
    load packed files.

    ``safetensors.safe_open`` and ``safetensors.deserialize`` are replaced in every
    module that has imported them. A file that begins like a packed one is then opened
    by `zstn.safe_open`, and any other file by safetensors itself, with the usual
    result. ``from_pretrained`` in transformers and diffusers finds ``X.zstn`` where it
    looks for ``X.safetensors``, in local folders and in repositories. This function can
    be called at any time, before or after those libraries are imported, and repeatedly.

    It has no effect on spawned processes; call it in them as well.

    Args:
        prefer_packed: whether packed weights are preferred to plain ones. If not, packed
            weights are only searched for if no others are found.
        modules: packages to change in addition to safetensors, such as
            ``["transformers"]``; all by default.

    Raises:
        ImportError: if safetensors or one of `modules` is not installed.
    """
    global _active
    from ._hooks import Hooks

    names = None
    if modules is not None:
        if isinstance(modules, str | ModuleType):
            modules = [modules]
        given = (each if isinstance(each, str) else each.__name__ for each in modules)
        names = frozenset(name.partition(".")[0] for name in given) | {"safetensors"}
        for name in names:
            if name not in sys.modules and find_spec(name) is None:
                raise ModuleNotFoundError(f"there is no package {name} to change", name=name)
    with _lock:
        if _active is not None and _active.packages != names:
            disable_hf()
        if _active is None:
            _active = Hooks(names)
        _active.prefer_packed = prefer_packed
        try:
            _active.apply()
        except BaseException:
            disable_hf()
            raise


def disable_hf() -> None:
    """Undoes `enable_hf`. Files that are open remain open."""
    global _active
    with _lock:
        if _active is not None:
            _active.remove()
            _active = None


def is_enabled() -> bool:
    """Returns whether `enable_hf` is in effect."""
    return _active is not None
