"""The logger of the package."""

from __future__ import annotations

import logging
from urllib.parse import urlsplit

#: Logs what is done: requests and retries, and what was opened, packed and restored.
LOGGER = logging.getLogger("zstn")
LOGGER.addHandler(logging.NullHandler())


def is_debugging() -> bool:
    """Returns whether requests are logged, which takes a little time for each."""
    return LOGGER.isEnabledFor(logging.DEBUG)


def shown(name: str) -> str:
    """Returns a path or an address without its secrets: user and query."""
    if "://" not in name:
        return name
    parts = urlsplit(name)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def request(message: str) -> None:
    """Logs a request, for the native module."""
    LOGGER.debug("%s", message)
