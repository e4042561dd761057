"""The load format ``zstn`` for vLLM: ``vllm serve OWNER/NAME --load-format zstn``.

vLLM finds this module through the entry point group ``vllm.general_plugins``. It is
written for vLLM 0.33.
"""

from __future__ import annotations

import logging

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

        from . import _vllm_metadata
        from ._vllm_loader import ZstnModelLoader

        _vllm_metadata.install()
        register_model_loader("zstn")(ZstnModelLoader)
    except Exception:
        # An exception would prevent vLLM from starting, even with models that are not
        # packed.
        _logger.warning("this version of vLLM cannot use the load format zstn", exc_info=True)
        return
    _is_registered = True
