"""Modules that are imported when they are used, since each takes its framework."""

from __future__ import annotations

import importlib
from typing import Any


def module(package: str, name: str) -> Any:
    """Imports a module as an attribute of its package.

    Raises:
        AttributeError: if its framework is missing, so that `hasattr`, `help` and
            `inspect` work. ``import`` raises the `ImportError`.
    """
    try:
        return importlib.import_module(f"{package}.{name}")
    except ImportError as error:
        raise AttributeError(
            f"{package}.{name} cannot be imported: {error}", name=name
        ) from error
