"""Packed weights in SGLang: ``python -m sglang.launch_server --model-path OWNER/NAME``
loads repositories and folders that contain packed files.

SGLang finds this module through the entry point group ``sglang.srt.plugins``. It is
written for SGLang 0.5.23.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

from ._weights import folder_of_packed, is_packed, read_weights, with_progress

_logger = logging.getLogger(__name__)
_is_registered = False

_LOADER = "sglang.srt.model_loader.loader.DefaultModelLoader"
_WEIGHT_UTILS = "sglang.srt.model_loader.weight_utils"

#: Load formats that use safetensors files and read tensors one by one.
_FORMATS = ("auto", "safetensors", "mistral")


def register() -> None:
    """Registers the hooks. SGLang calls this in each of its processes and applies the
    hooks afterwards."""
    global _is_registered
    if _is_registered:
        return
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    hooks = {
        f"{_LOADER}._prepare_weights": prepare_weights,
        f"{_WEIGHT_UTILS}.safetensors_weights_iterator": iterate_weights,
        f"{_WEIGHT_UTILS}.buffered_multi_thread_safetensors_weights_iterator": iterate_weights,
    }
    for target, hook in hooks.items():
        HookRegistry.register(target, hook, HookType.AROUND)
    _is_registered = True


def prepare_weights(
    original: Callable[..., Any],
    loader: Any,
    model_name_or_path: str,
    revision: str | None,
    fall_back_to_pt: bool,
    allow_patterns_overrides: list[str] | None = None,
) -> Any:
    """Lists a model's weights for its loader. If they are packed, the loader receives a
    folder with links to them under the names of safetensors files."""
    model = model_name_or_path
    if loader.load_config.load_format in _FORMATS:
        try:
            local = loader._maybe_download_from_modelscope(model, revision)
            packed = folder_of_packed(
                local, revision, allow_patterns_overrides, loader.load_config
            )
        except Exception:
            # Models without packed weights must load as they do without this plug-in.
            _logger.warning("%s: cannot look for packed weights", model, exc_info=True)
            packed = None
        if packed is not None:
            model = packed
    return original(loader, model, revision, fall_back_to_pt, allow_patterns_overrides)


def iterate_weights(
    original: Callable[..., Any], hf_weights_files: list[str], *args: Any, **options: Any
) -> Iterator[tuple[str, Any]]:
    """Returns an iterator over the weights in packed and plain files."""
    files = list(hf_weights_files)
    if not any(map(is_packed, files)):
        return original(files, *args, **options)
    return read_weights(with_progress(files, _is_first_rank()))


def _is_first_rank() -> bool:
    import torch

    distributed = torch.distributed
    return not distributed.is_initialized() or distributed.get_rank() == 0
