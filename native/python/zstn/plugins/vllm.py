"""The load format ``zstn`` for vLLM: ``vllm serve OWNER/NAME --load-format zstn``.

vLLM finds this module through the entry point group ``vllm.general_plugins``. It is
written for vLLM 0.33.

Besides the loader, vLLM needs the metadata that it reads from the headers of safetensors
files before loading them. From dtypes it infers the model's dtype, and from names whether
embeddings are tied.
"""

from __future__ import annotations

import functools
import logging
import os
import sys
from typing import Any

from .._reader import open as open_model

_logger = logging.getLogger(__name__)
_is_registered = False


def register() -> None:
    """Registers the load format. vLLM calls this in each of its processes, possibly
    more than once."""
    global _is_registered
    if _is_registered:
        return
    try:
        from vllm.model_executor.model_loader import register_model_loader

        from ._vllm_loader import ZstnModelLoader

        install_metadata()
        register_model_loader("zstn")(ZstnModelLoader)
    except Exception:
        # An exception would prevent vLLM from starting, even with models that are not
        # packed.
        _logger.warning("this version of vLLM cannot use the load format zstn", exc_info=True)
        return
    _is_registered = True


def install_metadata() -> None:
    """Replaces vLLM's ``get_safetensors_params_metadata`` by a version that supports
    packed files."""
    from vllm.transformers_utils import config

    name = "get_safetensors_params_metadata"
    original: Any = getattr(config, name)
    if hasattr(original, "__zstn__"):
        return

    @functools.wraps(original)
    def get(model: str, *, revision: str | None = None) -> dict[str, Any]:
        return original(model, revision=revision) or packed_metadata(model, revision)

    get.__zstn__ = True  # type: ignore[attr-defined]
    # Other modules have imported the function by name.
    for path, module in list(sys.modules.items()):
        if path.split(".")[0] == "vllm" and vars(module).get(name) is original:
            setattr(module, name, get)


def packed_metadata(model: str, revision: str | None) -> dict[str, Any]:
    """Returns dtype and shape of every tensor in the packed files of a local folder or
    a repository, reading only the indexes of the files. Returns an empty dictionary if
    that fails, like vLLM's function."""
    try:
        return {
            tensor.name: {"dtype": tensor.dtype, "shape": list(tensor.shape)}
            for address, options in _files(model, revision)
            for tensor in _tensors(address, options)
        }
    except Exception as error:
        _logger.debug("cannot read the packed files of %s: %s", model, error)
        return {}


def _tensors(address: str, options: dict[str, Any]) -> list[Any]:
    with open_model(address, dense=False, **options) as file:
        return list(file.values())


def _files(model: str, revision: str | None) -> list[tuple[str, dict[str, Any]]]:
    if os.path.isdir(model):
        names = sorted(os.listdir(model))
        return [(os.path.join(model, name), {}) for name in names if name.endswith(".zstn")]
    import huggingface_hub

    info = huggingface_hub.HfApi().model_info(model, revision=revision)
    names = sorted(sibling.rfilename for sibling in info.siblings or [])
    options = {"token": huggingface_hub.get_token()}
    return [
        (f"hf://{model}@{info.sha}/{name}", options)
        for name in names
        if name.endswith(".zstn") and "/" not in name
    ]
