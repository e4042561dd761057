"""Names of packed files and of the files that they restore."""

from __future__ import annotations

import re
from collections.abc import Collection

from .._errors import ZstnError

# "NAME.zstn", "NAME.zstn.index.json", and the latter with a variant.
_PACKED = re.compile(r"(?P<stem>.+)\.zstn(?P<index>\.index(\.[^/]+)?\.json)?")
_DELTA = re.compile(r"(?P<stem>.+)\.z4dm(?P<index>\.index(\.[^/]+)?\.json)?")

#: Weights in formats of other libraries, which packed weights make superfluous.
OTHER_WEIGHTS = [
    "*.bin",
    "*.bin.index.json",
    "*.ckpt",
    "*.gguf",
    "*.h5",
    "*.h5.index.json",
    "*.msgpack",
    "*.msgpack.index.json",
    "*.onnx",
    "*.onnx_data",
    "*.ot",
    "*.pt",
    "*.pth",
    "*.tflite",
]


def restored_name(name: str) -> str | None:
    """Returns the name under which a packed file or index appears when it is
    restored; `None` for any other file."""
    match = _PACKED.fullmatch(name)
    if match is None:
        return None
    return f"{match['stem']}.safetensors{match['index'] or ''}"


def packed_name(name: str) -> str:
    """Returns the name that the packed form of a safetensors file or of an
    index has."""
    return re.sub(r"\.safetensors(?=$|\.index(\.[^/]+)?\.json$)", ".zstn", name)


def is_index(name: str) -> bool:
    return name.endswith(".json")


def restored_index(text: bytes) -> bytes:
    """Returns the text of an index with the names of the restored files
    (docs/formats/sharded.md 3)."""
    return text.replace(b'.zstn"', b'.safetensors"')


def restored_names(names: Collection[str]) -> set[str]:
    """Returns the names of what the packed files among these restore."""
    return {other for name in names if (other := restored_name(name)) is not None}


def refuse_deltas(name: str, names: Collection[str]) -> None:
    """Raises an error for a difference from another checkpoint whose restored
    file is not there in another form."""
    available = {*names, *restored_names(names)}
    for delta in sorted(names):
        match = _DELTA.fullmatch(delta)
        if match is None or f"{match['stem']}.safetensors{match['index'] or ''}" in available:
            continue
        raise ZstnError(
            f"{name}: {delta} is the difference from another checkpoint, and does not say from "
            'which; restore it with `zstn.unpack(file, "model.safetensors", base=…)`, or leave it '
            'out with `ignore_patterns="*.z4dm*"`',
            "needs_base",
        )


def with_packed(patterns: list[str] | str | None) -> list[str] | None:
    """Returns patterns that match packed files as well where they match the
    files that those restore."""
    if patterns is None:
        return None
    if isinstance(patterns, str):
        patterns = [patterns]
    packed = [pattern.replace(".safetensors", ".zstn") for pattern in patterns]
    return list(dict.fromkeys([*patterns, *packed]))
