"""The exceptions of zstn."""

from __future__ import annotations

import sys
from typing import Any, Self


#: How messages of the native module about a missing base end. Functions such as `load_file`
#: have no argument for it, so the message of the exception names functions that have one.
_NATIVE_ADVICE = "give that checkpoint as its base"
_ADVICE = "give that checkpoint to `zstn.open(…, base=…)` or `zstn.unpack(…, base=…)`"


class _Base(Exception):
    """The base of `ZstnError` until safetensors is imported."""


class ZstnError(_Base):
    """An error of zstn.

    It is a subclass of ``safetensors.SafetensorError`` wherever safetensors has been
    imported, so that code which catches that error continues to work. A missing file
    raises ``FileNotFoundError``, and other errors of the operating system raise
    ``OSError``.

    Attributes:
        code: a short name for the type of error, for use by programs:
            ``"malformed"``, ``"unsupported"``, ``"http"``, ``"changed"``,
            ``"needs_base"``, …
        retryable: whether the same call may succeed later, because the network or a
            server failed. Requests have already been retried.
    """

    def __new__(cls, *args: Any, **options: Any) -> Self:
        # A caller that catches `SafetensorError` has imported it before the error.
        inherit()
        return super().__new__(cls, *args, **options)

    def __init__(self, message: str, code: str = "usage", retryable: bool = False) -> None:
        if code == "needs_base":
            message = message.replace(_NATIVE_ADVICE, _ADVICE)
        super().__init__(message)
        self.code = code
        self.retryable = retryable

    def __reduce__(self) -> tuple[type[ZstnError], tuple[str, str, bool]]:
        return type(self), (str(self), self.code, self.retryable)


class TensorNotFoundError(ZstnError, KeyError):
    """The model has no tensor with this name."""

    def __init__(
        self, message: str, code: str = "not_found", retryable: bool = False
    ) -> None:
        super().__init__(message, code, retryable)

    # `KeyError.__str__` would show the message in quotes.
    def __str__(self) -> str:
        return str(self.args[0])


class SliceError(ZstnError, IndexError):
    """An index is out of bounds for the tensor."""

    def __init__(self, message: str, code: str = "index", retryable: bool = False) -> None:
        super().__init__(message, code, retryable)


def inherit() -> None:
    """Makes `ZstnError` a subclass of ``safetensors.SafetensorError``, if safetensors has
    been imported. This module does not import it."""
    if ZstnError.__bases__ != (_Base,):
        return
    found = getattr(sys.modules.get("safetensors"), "SafetensorError", None)
    if isinstance(found, type):
        ZstnError.__bases__ = (found,)


inherit()
