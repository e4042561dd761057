"""Names of packed files, and names of the files that they restore."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator
from pathlib import PurePosixPath, PureWindowsPath

from .. import _native
from .._errors import ZstnError

# A delta, or an index of deltas. Its variant, such as "fp16", comes before or after the
# word "index" (docs/formats/sharded.md 4). The name of a format is not a variant.
_DELTA = re.compile(
    r"(?P<stem>(.*/)?[^/]+)\.z4dm"
    r"(?P<index>(\.index(\.[^./]+)?|\.(?!(safetensors|zstn|z4dm|zt|gauss)\.)[^./]+\.index)\.json)?"
)

# A safetensors file or an index, with its variant and its shard number.
_WEIGHTS = re.compile(
    r"(?P<stem>.+?)(\.(?P<variant>[A-Za-z][^./]*?))?(-\d+-of-\d+)?"
    r"\.safetensors"
    r"(\.index(\.(?P<index_variant>[^./]+))?\.json|\.(?P<older_variant>[^./]+)\.index\.json)?"
)

#: Extensions of weights in formats of other libraries.
_OTHER_WEIGHTS = tuple(
    ".bin .ckpt .gguf .h5 .keras .msgpack .nemo .onnx .onnx_data .ot .pt .pth .tflite "
    ".bin.index.json .h5.index.json .msgpack.index.json".split()
)


def restored_name(name: str) -> str | None:
    """Returns the name under which a packed file or index is restored:
    ``model.safetensors`` for ``model.zstn``, and ``model.gguf`` for ``model.gguf.zstn``
    (docs/formats/zstn-virtual-header.md 1). Returns `None` for any other file."""
    return _native.restored_name(name)


def packed_name(name: str) -> str:
    """Returns the name of the packed form of a model file or of an index, the inverse of
    `restored_name`; any other name is returned unchanged."""
    return _native.packed_name(name) or name


def packed_weights(name: str) -> str:
    """Returns the name of the packed form of a safetensors file or index; any other
    name, such as the name of a model of another format, is returned unchanged."""
    return name if is_other_model(name) else packed_name(name)


def is_other_model(name: str) -> bool:
    """Returns whether this is the name of a model file of another format than
    safetensors."""
    return packed_name(name) == f"{name}.zstn"


def restores_other_model(name: str) -> bool:
    """Returns whether this is the name of a packed file that restores a model file of
    another format than safetensors."""
    restored = restored_name(name)
    return restored is not None and is_other_model(restored)


def is_plain_index(name: str) -> bool:
    """Returns whether this is the name of an index of safetensors files."""
    return is_index(name) and packed_name(name) != name


def check_name(name: str) -> None:
    """Refuses a name that is not a path below a folder. Names come from repositories
    and indexes, which are not trusted."""
    parts = PurePosixPath(name).parts
    # On Windows, "C:x" and "\\x" are outside the folder, too.
    is_elsewhere = name.startswith("/") or PureWindowsPath(name).anchor or "\\" in name
    if not parts or ".." in parts or is_elsewhere or "\0" in name:
        raise ZstnError(f"{name!r} is not the name of a file in this folder", "malformed")


def is_index(name: str) -> bool:
    return name.endswith(".json")


def restored_index(text: bytes) -> bytes:
    """Returns an index with the names of the restored files (docs/formats/sharded.md
    3)."""
    return text.replace(b'.zstn"', b'.safetensors"')


def restored_names(names: Collection[str]) -> set[str]:
    """Returns the names of the files that the packed files in `names` restore."""
    return {other for name in names if (other := restored_name(name)) is not None}


def refuse_deltas(name: str, names: Collection[str]) -> None:
    """Raises an error if a file is a delta and its restored file is not available in
    another form."""
    available = {*names, *restored_names(names)}
    for delta in sorted(names):
        match = _DELTA.fullmatch(delta)
        if match is None or f"{match['stem']}.safetensors{match['index'] or ''}" in available:
            continue
        raise ZstnError(
            f"{name}: {delta} is a delta from another checkpoint, and does not name it; "
            'restore it with `zstn.unpack(file, "model.safetensors", base=…)`, or leave it '
            'out with `ignore_patterns="*.z4dm*"`',
            "needs_base",
        )


def with_packed(patterns: list[str] | str | None) -> list[str] | None:
    """Returns patterns that also match the packed form of every file that they match.
    They may match more files: ``*.zstn``, which is returned for ``*.safetensors``,
    matches ``model.gguf.zstn``."""
    if patterns is None:
        return None
    if isinstance(patterns, str):
        patterns = [patterns]
    packed = [pattern.replace(".safetensors", ".zstn") for pattern in patterns]
    others = [f"{pattern}.zstn" for pattern in patterns]
    return list(dict.fromkeys([*patterns, *packed, *others]))


def other_formats(names: Collection[str]) -> Iterator[str]:
    """Yields the names of files with weights in formats of other libraries, from folders
    that also contain safetensors weights, plain or packed."""
    folders = {posixpath.dirname(name) for name in names if _weights(name)}
    for name in names:
        if _is_other_weights(name) and posixpath.dirname(name) in folders:
            yield name


def other_variants(names: Collection[str], variant: str | None) -> Iterator[str]:
    """Yields the weights of other variants than the chosen one: `variant` if it exists,
    otherwise the weights without a variant if those exist."""
    groups: dict[str, dict[str | None, list[str]]] = {}
    for name in names:
        match = _weights(name)
        if match is not None:
            found = match["variant"] or match["index_variant"] or match["older_variant"]
            groups.setdefault(match["stem"], {}).setdefault(found, []).append(name)
    for group in groups.values():
        chosen = variant if variant in group else None
        if chosen in group:
            for other, members in group.items():
                if other != chosen:
                    yield from members


def is_weights(name: str) -> bool:
    return _weights(name) is not None or _is_other_weights(name)


def _weights(name: str) -> re.Match[str] | None:
    """Matches the name of a safetensors file or index, plain or packed."""
    return _WEIGHTS.fullmatch(restored_name(name) or name)


def _is_other_weights(name: str) -> bool:
    return (restored_name(name) or name).endswith(_OTHER_WEIGHTS)
