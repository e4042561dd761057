"""Loading packed weights in transformers, written for transformers 5.23. A single
function of transformers finds the files of a checkpoint."""

from __future__ import annotations

import functools
import inspect
import json
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any

from ..hub._names import check_name, is_other_model, packed_name
from ..hub._tree import Tree, local_view_name, view_name
from ..hub._view import shadow_of

MODULE = "transformers.modeling_utils"
_FUNCTION = "_get_resolved_checkpoint_files"
_NEEDED = frozenset(
    "pretrained_model_name_or_path variant gguf_file use_safetensors download_kwargs".split()
)


def hook(module: ModuleType, prefers_packed: Callable[[], bool]) -> tuple[Any, Any] | None:
    """Returns the original function and its replacement."""
    original = getattr(module, _FUNCTION, None)
    signature = inspect.signature(original) if callable(original) else None
    if original is None or signature is None or not _NEEDED <= set(signature.parameters):
        import transformers

        warnings.warn(
            f"zstn.enable_hf does not know how transformers {transformers.__version__} finds its "
            "files: give it the folder that zstn.hub.snapshot_download returns",
            stacklevel=2,
        )
        return None

    @functools.wraps(original)
    def find(*args: Any, **options: Any) -> Any:
        bound = signature.bind(*args, **options)
        bound.apply_defaults()
        if prefers_packed():
            folder = _shadow(bound.arguments)
            if folder is None:
                return original(*args, **options)
        else:
            try:
                return original(*args, **options)
            except OSError:
                folder = _shadow(bound.arguments)
                if folder is None:
                    raise
        # The shadow folder contains the packed files under the names that transformers
        # expects.
        bound.arguments["pretrained_model_name_or_path"] = folder
        return original(*bound.args, **bound.kwargs)

    return original, find


def _shadow(call: dict[str, Any]) -> str | None:
    """Returns the shadow folder with the packed weights for a call; `None` if there are
    none."""
    model = call["pretrained_model_name_or_path"]
    if model is None or call["gguf_file"] or call["use_safetensors"] is False:
        return None
    model, options = os.fspath(model), dict(call["download_kwargs"] or {})
    explicit = call.get("transformers_explicit_filename")
    # transformers cannot load a packed file that restores a file of another format.
    plain = [name for name in _names(call["variant"], explicit) if not is_other_model(name)]
    names = [packed_name(name) for name in plain]
    subfolder = options.get("subfolder") or ""
    if os.path.isdir(model):
        return _of_folder(Path(model), subfolder, names)
    if os.path.exists(model):
        return None
    return _of_repository(model, subfolder, names, options, call)


def _names(variant: str | None, explicit: str | None) -> Iterator[str]:
    if explicit is not None:
        yield explicit
        return
    for name in ("model.safetensors", "model.safetensors.index.json"):
        stem, ending = name.rsplit(".", 1)
        yield f"{stem}.{variant}.{ending}" if variant is not None else name


def _of_folder(model: Path, subfolder: str, names: list[str]) -> str | None:
    folder = model / subfolder
    name = next((name for name in names if (folder / name).is_file()), None)
    if name is None:
        return None
    files = [_join(subfolder, file) for file in (name, *_shards(folder / name))]
    model = Path(os.path.realpath(model))
    shown_as = local_view_name(model, files[0])
    return shadow_of(Tree(model, files, shown_as, is_commit=False))


def _of_repository(
    model: str, subfolder: str, names: list[str], options: dict[str, Any], call: dict[str, Any]
) -> str | None:
    from transformers.utils import hub

    keywords = {
        name: options[name]
        for name in ("cache_dir", "force_download", "proxies", "token", "local_files_only")
        if options.get(name) is not None
    }
    keywords["revision"] = options.get("revision") or "main"
    keywords["user_agent"] = call.get("user_agent")
    keywords["subfolder"] = subfolder
    for name in names:
        path = hub.cached_file(
            model,
            name,
            **keywords,
            _raise_exceptions_for_gated_repo=False,
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
        )
        if path is None:
            continue
        files = [_join(subfolder, file) for file in (name, *_shards(Path(path)))]
        # The path has the form SNAPSHOTS/COMMIT/SUBFOLDER/NAME.
        snapshot = Path(path).parents[files[0].count("/")]
        if len(files) > 1:
            # All shards come from the same commit, even if the branch moves meanwhile.
            keywords["revision"] = snapshot.name
            hub.get_checkpoint_shard_files(model, path, **keywords)
        return shadow_of(Tree(snapshot, files, view_name(model, snapshot.name), is_commit=True))
    return None


def _shards(file: Path) -> list[str]:
    """Returns the names of the files in an index; an empty list for any other file."""
    if file.suffix != ".json":
        return []
    index = json.loads(file.read_bytes())
    names = sorted(set(index["weight_map"].values()))
    for name in names:
        check_name(name)
    return names


def _join(folder: str, name: str) -> str:
    return PurePosixPath(folder, name).as_posix()
