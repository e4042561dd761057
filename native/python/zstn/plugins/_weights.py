"""Reading weights from packed files, for inference engines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .._safe_open import safe_open
from ..hub import shadow_folder

_MAGIC = b"ZSTN"

#: Patterns of the files in a folder that contain its weights.
_WEIGHTS = ["*.safetensors", "*.safetensors.index.json"]


def is_packed(path: str) -> bool:
    """Returns whether a file is packed, judged by its first bytes."""
    with open(path, "rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def folder_of_packed(
    repo_or_folder: str,
    revision: str | None,
    patterns: list[str] | None,
    load_config: Any,
) -> str | None:
    """Returns a folder with the packed weights of a repository or of a local folder,
    under the names of safetensors files; `None` if there are no packed weights.

    Args:
        patterns: the weights to download; by default, all weights in safetensors files
            and packed files.
        load_config: the settings of the engine.
    """
    return shadow_folder(
        repo_or_folder,
        revision=revision,
        cache_dir=load_config.download_dir,
        local_files_only=_is_offline(),
        allow_patterns=_WEIGHTS if patterns is None else [*patterns, _WEIGHTS[1]],
        ignore_patterns=load_config.ignore_patterns or None,
    )


def _is_offline() -> bool:
    from huggingface_hub import constants

    return bool(constants.HF_HUB_OFFLINE)


def read_weights(
    files: Iterable[str],
    skip: Callable[[str], bool] = lambda _: False,
    framework: str = "pt",
) -> Iterator[tuple[str, Any]]:
    """Yields the tensors of packed and plain files one by one, sorted by name within a
    file. Tensors whose name `skip` accepts are not read."""
    for path in files:
        with safe_open(path, framework) as file:
            for name in file.keys():  # noqa: SIM118 - sorted as in safetensors
                if not skip(name):
                    yield name, file.get_tensor(name)


def with_progress(files: list[str], is_shown: bool) -> Iterable[str]:
    """Yields the files, while a progress bar shows how many have been read."""
    from tqdm.auto import tqdm

    shown: Iterable[str] = tqdm(
        files, desc="Loading packed checkpoint shards", disable=not is_shown
    )
    return shown
