"""The exceptions of zstn."""

from __future__ import annotations

try:
    from safetensors import SafetensorError as _Base
except ImportError:
    _Base = Exception  # type: ignore[misc,assignment]


class ZstnError(_Base):  # pyright: ignore[reportGeneralTypeIssues]
    """An error of zstn.

    It is a subclass of ``safetensors.SafetensorError`` if safetensors is installed, so
    that code which catches that error continues to work. A missing file raises
    ``FileNotFoundError``, and other errors of the operating system raise ``OSError``.

    Attributes:
        code: a short name for the type of error, for use by programs:
            ``"malformed"``, ``"unsupported"``, ``"http"``, ``"changed"``,
            ``"needs_base"``, …
    """

    def __init__(self, message: str, code: str = "usage") -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[type[ZstnError], tuple[str, str]]:
        return type(self), (str(self), self.code)


class TensorNotFoundError(ZstnError, KeyError):
    """The model has no tensor with this name."""

    def __init__(self, message: str, code: str = "not_found") -> None:
        super().__init__(message, code)

    # `KeyError.__str__` would show the message in quotes.
    def __str__(self) -> str:
        return str(self.args[0])


class SliceError(ZstnError, IndexError):
    """An index is out of bounds for the tensor."""

    def __init__(self, message: str, code: str = "index") -> None:
        super().__init__(message, code)
