"""The exceptions."""

from __future__ import annotations

try:
    from safetensors import SafetensorError as _Base
except ImportError:
    _Base = Exception  # type: ignore[misc,assignment]


class ZstnError(_Base):  # pyright: ignore[reportGeneralTypeIssues]
    """An error of zstn.

    It is a ``safetensors.SafetensorError`` where safetensors is installed, so
    that code which expects that one goes on working. A file that does not
    exist is a ``FileNotFoundError``, and what else the system refuses an
    ``OSError``.

    Attributes:
        code: a short name for the kind of error, for programs:
            ``"malformed"``, ``"unsupported"``, ``"http"``, ``"changed"``,
            ``"needs_base"``, …
    """

    def __init__(self, message: str, code: str = "usage") -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[type[ZstnError], tuple[str, str]]:
        return type(self), (str(self), self.code)


class TensorNotFoundError(ZstnError, KeyError):
    """A name that the model has no tensor of."""

    def __init__(self, message: str, code: str = "not_found") -> None:
        super().__init__(message, code)

    # A key error would show the message as the text of a key.
    def __str__(self) -> str:
        return str(self.args[0])


class SliceError(ZstnError, IndexError):
    """An index that a tensor does not have."""

    def __init__(self, message: str, code: str = "index") -> None:
        super().__init__(message, code)
