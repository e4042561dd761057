"""The logger of the package."""

from __future__ import annotations

import logging

#: Logs what is done: requests and retries, and what was opened, packed and restored.
LOGGER = logging.getLogger("zstn")
LOGGER.addHandler(logging.NullHandler())


def is_debugging() -> bool:
    """Returns whether requests are logged, which takes a little time for each."""
    return LOGGER.isEnabledFor(logging.DEBUG)


def request(message: str) -> None:
    """Logs a request, for the native module."""
    LOGGER.debug("%s", message)
