"""Lets libraries that load safetensors files load packed ones, in place of
`zstn.enable_hf` and its companions."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from types import ModuleType
from typing import Any

__all__ = ["disable_hf", "enable_hf", "is_enabled"]

_lock = threading.RLock()
_active: Any = None


def enable_hf(
    *, prefer_packed: bool = True, modules: Iterable[str | ModuleType] | None = None
) -> None:
    """Lets transformers, diffusers, accelerate and whatever else reads files
    by safetensors load packed ones.

    ``safetensors.safe_open`` and ``safetensors.deserialize`` are replaced
    wherever they have been imported to: a file that begins as packed ones do
    is opened by `zstn.safe_open`, any other by safetensors itself, with the
    same object as a result. ``from_pretrained`` of transformers and diffusers
    finds ``X.zstn`` where it looks for ``X.safetensors``, in local folders and
    in repositories. It may be called at any time, before or after those
    libraries are imported, and again.

    It does not reach processes that are spawned; call it in them as well.

    Args:
        prefer_packed: whether packed weights are taken where there are plain
            ones too. Otherwise they are looked for when nothing else is found.
        modules: packages to change, such as ``["transformers"]``, next to
            safetensors; by default all.

    Raises:
        ImportError: if safetensors is not installed.
    """
    global _active
    from ._hooks import Hooks

    names = None
    if modules is not None:
        if isinstance(modules, str | ModuleType):
            modules = [modules]
        given = (each if isinstance(each, str) else each.__name__ for each in modules)
        names = frozenset(name.partition(".")[0] for name in given) | {"safetensors"}
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
    """Undoes `enable_hf`. Files that have been opened stay open."""
    global _active
    with _lock:
        if _active is not None:
            _active.remove()
            _active = None


def is_enabled() -> bool:
    """Returns whether `enable_hf` is in force."""
    return _active is not None
