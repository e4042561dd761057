"""The logger of the package."""

from __future__ import annotations

import logging
from urllib.parse import urlsplit

#: Logs requests and retries, and every model that is opened, packed or restored.
LOGGER = logging.getLogger("zstn")
LOGGER.addHandler(logging.NullHandler())


def is_debugging() -> bool:
    """Returns whether requests are logged, which costs a little time per request."""
    return LOGGER.isEnabledFor(logging.DEBUG)


def shown(name: str) -> str:
    """Returns a path, or a URL without user, password and query, which may be secret.
    """
    if "://" not in name:
        return name
    parts = urlsplit(name)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def request(message: str) -> None:
    """Logs a request; called by the native module."""
    LOGGER.debug("%s", message)
