"""Packed weights in what diffusers loads from, written for diffusers 0.42:
class methods that take a repository or a folder get the shadow of it."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from ..hub._names import is_weights, other_variants
from ..hub._request import Request
from ..hub._shadow import shadow

MODELS = "diffusers.models.modeling_utils"
PIPELINES = "diffusers.pipelines.pipeline_utils"

#: Returns the shadow of what a call loads from, `None` if nothing is packed:
#: of its class, the name and the keywords.
_Shadow = Callable[[type, Any, dict[str, Any]], str | None]


def hook(
    module: ModuleType, prefers_packed: Callable[[], bool]
) -> Iterator[tuple[type, str, Any]]:
    """Returns class methods, by class and name, and what takes their place."""
    if module.__name__ == MODELS:
        for name in ("ModelMixin", "LegacyModelMixin"):
            owner = getattr(module, name, None)
            if owner is not None and "from_pretrained" in vars(owner):
                method = _from_pretrained(owner, _of_model, _of_model, prefers_packed)
                yield owner, "from_pretrained", method
        return
    owner = module.DiffusionPipeline
    original = vars(owner)["download"].__func__

    def of_pipeline(cls: type, name: Any, options: dict[str, Any]) -> str | None:
        return _of_pipeline(original, cls, name, options)

    @functools.wraps(original)
    def download(cls: type, name: Any, **options: Any) -> Any:
        if options.get("use_safetensors") is False or not prefers_packed():
            return original(cls, name, **options)
        return of_pipeline(cls, name, options) or original(cls, name, **options)

    # Repositories come by `download`, unless plain weights are preferred.
    method = _from_pretrained(owner, _of_local_pipeline, of_pipeline, prefers_packed)
    yield owner, "from_pretrained", method
    any_class: Any = download
    yield owner, "download", classmethod(any_class)


def _from_pretrained(
    owner: type, before: _Shadow, after: _Shadow, prefers_packed: Callable[[], bool]
) -> Any:
    """Returns a method that loads from the shadow which `before` finds; where
    plain weights are preferred, from that of `after` if there are none."""
    original = vars(owner)["from_pretrained"].__func__

    @functools.wraps(original)
    def from_pretrained(cls: type, name: Any = None, *args: Any, **options: Any) -> Any:
        if name is None or options.get("use_safetensors") is False:
            return original(cls, name, *args, **options)
        if prefers_packed():
            return original(cls, before(cls, name, options) or name, *args, **options)
        try:
            return original(cls, name, *args, **options)
        except OSError:
            folder = after(cls, name, options)
            if folder is None:
                raise
        return original(cls, folder, *args, **options)

    any_class: Any = from_pretrained
    return classmethod(any_class)


def _of_model(cls: type, name: Any, options: dict[str, Any]) -> str | None:
    subfolder = (options.get("subfolder") or "").strip("/")
    patterns: dict[str, Any] = (
        {"allow_patterns": f"{subfolder}/*"} if subfolder else {"ignore_patterns": "*/*"}
    )
    request = _request(name, options, **patterns)
    return shadow(request, lambda names: other_variants(names, options.get("variant")))


def _of_local_pipeline(cls: type, name: Any, options: dict[str, Any]) -> str | None:
    return shadow(_request(name, options)) if os.path.isdir(name) else None


def _of_pipeline(
    download: Callable[..., Any], cls: type, name: Any, options: dict[str, Any]
) -> str | None:
    def leave_out(names: list[str]) -> list[str]:
        if options.get("custom_pipeline") or any(file.endswith(".py") for file in names):
            # It refuses code that the caller does not trust.
            download(cls, name, **options)
        return _not_of_pipeline(names, options)

    return shadow(_request(name, options), leave_out)


def _not_of_pipeline(names: list[str], options: dict[str, Any]) -> list[str]:
    """Returns the weights that a pipeline does not load."""
    left_out = [*other_variants(names, options.get("variant"))]
    weights = [name for name in names if is_weights(name)]
    if any("/" in name for name in weights):
        # Those of the whole pipeline in one file, for other programs.
        left_out += [name for name in weights if "/" not in name and not _is_component(name)]
    # Components that the caller has already.
    return left_out + [name for name in weights if name.partition("/")[0] in options]


def _is_component(name: str) -> bool:
    return name.partition(".")[0].partition("-")[0].endswith("model")


def _request(name: Any, options: dict[str, Any], **patterns: Any) -> Request:
    return Request(
        repo_id=os.fspath(name),
        revision=options.get("revision"),
        repo_type=None,
        cache_dir=options.get("cache_dir"),
        local_files_only=bool(options.get("local_files_only")),
        token=options.get("token"),
        allow_patterns=patterns.get("allow_patterns"),
        ignore_patterns=patterns.get("ignore_patterns"),
    )
