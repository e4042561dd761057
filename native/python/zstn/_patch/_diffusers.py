"""Loading packed weights in diffusers, written for diffusers 0.42. Class methods that
accept a repository or a folder receive a shadow folder (`zstn.hub.shadow_folder`)
instead."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any

from ..hub._download import LeaveOut
from ..hub._names import is_weights, other_variants
from ..hub._tree import Request
from ..hub._view import shadow

MODELS = "diffusers.models.modeling_utils"
PIPELINES = "diffusers.pipelines.pipeline_utils"

#: Returns the shadow folder for a call; `None` if none of its files is packed.
_Shadow = Callable[["_Call"], str | None]


def hook(module: ModuleType, prefers_packed: Callable[[], bool]) -> Iterator[tuple[type, str, Any]]:
    """Yields each class and method name to patch, with the replacement."""
    if module.__name__ == MODELS:
        for name in ("ModelMixin", "LegacyModelMixin"):
            owner = getattr(module, name, None)
            if owner is not None and "from_pretrained" in vars(owner):
                method = _from_pretrained(owner, _of_model, _of_model, prefers_packed)
                yield owner, "from_pretrained", method
        return
    owner = module.DiffusionPipeline
    original = vars(owner)["download"].__func__

    def of_pipeline(call: _Call) -> str | None:
        return _of_pipeline(original, call)

    def download(*args: Any, **options: Any) -> Any:
        call = _Call(original, args, options)
        folder = of_pipeline(call) if call.may_be_packed and prefers_packed() else None
        return folder or call.run()

    # A repository is handled by `download`, unless plain weights are preferred.
    method = _from_pretrained(owner, _of_local_pipeline, of_pipeline, prefers_packed)
    yield owner, "from_pretrained", method
    yield owner, "download", classmethod(functools.wraps(original)(download))


class _Call:
    """A call of a class method whose first argument names the model."""

    def __init__(
        self, original: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]
    ) -> None:
        self._original = original
        self._bound = inspect.signature(original).bind(*args, **options)
        self._parameter = [*self._bound.signature.parameters][1]

    @property
    def cls(self) -> type:
        cls: type = self._bound.args[0]
        return cls

    @property
    def name(self) -> Any:
        return self._bound.arguments.get(self._parameter)

    @property
    def options(self) -> dict[str, Any]:
        return self._bound.kwargs

    @property
    def may_be_packed(self) -> bool:
        return self.name is not None and self.options.get("use_safetensors") is not False

    def run(self, name: Any = None) -> Any:
        """Calls the original method, with `name` instead of its first argument if
        given."""
        if name is not None:
            self._bound.arguments[self._parameter] = name
        return self._original(*self._bound.args, **self._bound.kwargs)


def _from_pretrained(
    owner: type, before: _Shadow, after: _Shadow, prefers_packed: Callable[[], bool]
) -> Any:
    """Returns a method that loads from the shadow folder that `before` returns. If
    plain weights are preferred, it loads those, and the folder that `after` returns if
    there are none."""
    original = vars(owner)["from_pretrained"].__func__

    def from_pretrained(*args: Any, **options: Any) -> Any:
        call = _Call(original, args, options)
        if not call.may_be_packed:
            return call.run()
        if prefers_packed():
            return call.run(before(call))
        try:
            return call.run()
        except OSError:
            folder = after(call)
            if folder is None:
                raise
        return call.run(folder)

    return classmethod(functools.wraps(original)(from_pretrained))


def _of_model(call: _Call) -> str | None:
    subfolder = (call.options.get("subfolder") or "").strip("/")
    patterns: dict[str, Any] = (
        {"allow_patterns": f"{subfolder}/*"} if subfolder else {"ignore_patterns": "*/*"}
    )
    variant = call.options.get("variant")
    return _find(_request(call, **patterns), lambda names: other_variants(names, variant))


def _of_local_pipeline(call: _Call) -> str | None:
    return shadow(_request(call)) if os.path.isdir(call.name) else None


def _of_pipeline(download: Callable[..., Any], call: _Call) -> str | None:
    def leave_out(names: list[str]) -> list[str]:
        has_code = any(name.endswith(".py") for name in names)
        if has_code or call.options.get("custom_pipeline"):
            # `download` raises an error if this code needs `trust_remote_code` and the
            # caller has not set it.
            download(call.cls, call.name, **call.options)
        return _not_of_pipeline(names, call.options)

    return _find(_request(call), leave_out)


def _find(request: Request, leave_out: LeaveOut) -> str | None:
    if os.path.isdir(request.repo_id):
        return shadow(request)
    is_listed = False

    def note(names: list[str]) -> Iterable[str]:
        nonlocal is_listed
        is_listed = True
        return leave_out(names)

    try:
        return shadow(request, note)
    except (OSError, ValueError):
        if is_listed:
            raise
        # Whether there are packed files is unknown. diffusers reports the error itself,
        # unless it does not need the hub.
        return None


def _not_of_pipeline(names: list[str], options: dict[str, Any]) -> list[str]:
    """Returns the weights that the pipeline does not load."""
    left_out = [*other_variants(names, options.get("variant"))]
    weights = [name for name in names if is_weights(name)]
    if any("/" in name for name in weights):
        # Weights of the whole pipeline in a single file are meant for other programs.
        left_out += [name for name in weights if "/" not in name and not _is_component(name)]
    # The caller passes these components itself.
    return left_out + [name for name in weights if name.partition("/")[0] in options]


def _is_component(name: str) -> bool:
    return name.partition(".")[0].partition("-")[0].endswith("model")


def _request(call: _Call, **patterns: Any) -> Request:
    options = call.options
    return Request(
        repo_id=os.fspath(call.name),
        revision=options.get("revision"),
        repo_type=None,
        cache_dir=options.get("cache_dir"),
        local_files_only=bool(options.get("local_files_only")),
        token=options.get("token"),
        allow_patterns=patterns.get("allow_patterns"),
        ignore_patterns=patterns.get("ignore_patterns"),
    )
