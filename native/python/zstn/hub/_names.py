"""Names of packed files and of the files that they restore."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator
from pathlib import PurePosixPath, PureWindowsPath

from .._errors import ZstnError

# The end of the name of an index, whose variant, such as "fp16", may come before or
# after the word (docs/formats/sharded.md 4). A format is no variant.
_INDEX = r"(\.index(\.[^./]+)?|\.(?!(safetensors|zstn|z4dm|zt|gauss)\.)[^./]+\.index)\.json"

# A file or an index of each format: "NAME.zstn", "NAME.zstn.index.json".
_PLAIN = re.compile(rf"(?P<stem>(.*/)?[^/]+)\.safetensors(?P<index>{_INDEX})?")
_PACKED = re.compile(rf"(?P<stem>(.*/)?[^/]+)\.zstn(?P<index>{_INDEX})?")
_DELTA = re.compile(rf"(?P<stem>(.*/)?[^/]+)\.z4dm(?P<index>{_INDEX})?")

# A file of weights, with its variant and its number among several.
_WEIGHTS = re.compile(
    r"(?P<stem>.+?)(\.(?P<variant>[A-Za-z][^./]*?))?(-\d+-of-\d+)?"
    r"\.(zstn|safetensors)"
    r"(\.index(\.(?P<index_variant>[^./]+))?\.json|\.(?P<older_variant>[^./]+)\.index\.json)?"
)

#: Endings of weights in formats of other libraries.
_OTHER_WEIGHTS = tuple(
    ".bin .ckpt .gguf .h5 .msgpack .onnx .onnx_data .ot .pt .pth .tflite "
    ".bin.index.json .h5.index.json .msgpack.index.json".split()
)


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
    match = _PLAIN.fullmatch(name)
    return name if match is None else f"{match['stem']}.zstn{match['index'] or ''}"


def is_plain_index(name: str) -> bool:
    """Returns whether that is the name of an index of safetensors files."""
    match = _PLAIN.fullmatch(name)
    return match is not None and match["index"] is not None


def check_name(name: str) -> None:
    """Refuses what is not the name of a file below a folder. Names come from
    repositories and from indexes."""
    parts = PurePosixPath(name).parts
    # On Windows, "C:x" and "\\x" lead elsewhere as well.
    is_elsewhere = name.startswith("/") or PureWindowsPath(name).anchor or "\\" in name
    if not parts or ".." in parts or is_elsewhere or "\0" in name:
        raise ZstnError(f"{name!r} is not the name of a file in this folder", "malformed")


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


def other_formats(names: Collection[str]) -> Iterator[str]:
    """Returns the weights in formats of other libraries, of folders that have
    them in that of safetensors."""
    folders = {posixpath.dirname(name) for name in names if _WEIGHTS.fullmatch(name)}
    for name in names:
        if name.endswith(_OTHER_WEIGHTS) and posixpath.dirname(name) in folders:
            yield name


def other_variants(names: Collection[str], variant: str | None) -> Iterator[str]:
    """Returns the weights that are not those of a variant, where there are
    some of that variant, or else some without any."""
    groups: dict[str, dict[str | None, list[str]]] = {}
    for name in names:
        match = _WEIGHTS.fullmatch(name)
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
    return _WEIGHTS.fullmatch(name) is not None or name.endswith(_OTHER_WEIGHTS)
