"""Modules that are imported on first use, because each needs its framework."""

from __future__ import annotations

import importlib
from typing import Any


def module(package: str, name: str) -> Any:
    """Imports a module for attribute access on its package.

    Raises:
        AttributeError: if its framework is missing, so that `hasattr`, `help` and
            `inspect` work. An ``import`` statement raises the `ImportError`.
    """
    try:
        return importlib.import_module(f"{package}.{name}")
    except ImportError as error:
        raise AttributeError(
            f"{package}.{name} cannot be imported: {error}", name=name
        ) from error
