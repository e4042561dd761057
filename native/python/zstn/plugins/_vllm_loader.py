"""A model loader for vLLM that reads packed weights."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from typing import Any

from vllm.model_executor.model_loader.default_loader import DefaultModelLoader
from vllm.model_executor.model_loader.ep_weight_filter import should_skip_weight
from vllm.model_executor.model_loader.weight_utils import (
    enable_tqdm,
    filter_mm_encoder_only_safetensors_files,
    maybe_download_from_modelscope,
)

from ._weights import folder_of_packed, is_packed, read_weights, with_progress


class ZstnModelLoader(DefaultModelLoader):  # type: ignore[misc]
    """Loads weights from the packed files of a repository or folder. Repositories and
    folders without packed files are loaded as with the load format ``auto``."""

    #: The framework of the tensors, as `zstn.safe_open` names it.
    framework = "pt"

    load_config: Any
    local_expert_ids: set[int] | None
    counter_before_loading_weights: float

    def _prepare_weights(
        self,
        model_name_or_path: str,
        subfolder: str | None,
        revision: str | None,
        fall_back_to_pt: bool,
        allow_patterns_overrides: list[str] | None,
    ) -> tuple[str, list[str], bool, str]:
        model: str = (
            maybe_download_from_modelscope(model_name_or_path, revision) or model_name_or_path
        )
        packed = folder_of_packed(model, revision, allow_patterns_overrides, self.load_config)
        if packed is not None:
            model = packed
        # The parent class lists the files, but only for load formats that it knows.
        config = self.load_config
        self.load_config = copy.copy(config)
        self.load_config.load_format = "auto"
        try:
            return super()._prepare_weights(
                model, subfolder, revision, fall_back_to_pt, allow_patterns_overrides
            )
        finally:
            self.load_config = config

    def _get_weights_iterator(self, source: Any) -> Iterator[tuple[str, Any]]:
        folder, files, use_safetensors, index_file = self._prepare_weights(
            source.model_or_path,
            source.subfolder,
            source.revision,
            source.fall_back_to_pt,
            source.allow_patterns_overrides,
        )
        if not use_safetensors or not any(map(is_packed, files)):
            return super()._get_weights_iterator(source)
        if self.load_config.safetensors_load_strategy == "torchao":
            raise ValueError(
                f"{source.model_or_path} was quantised by torchao, whose tensors each consist "
                "of several tensors in the file: unpack it (`zstn unpack`) and load it without "
                "--load-format zstn"
            )
        if self._encoder_only_lm_prefixes is not None:
            files = filter_mm_encoder_only_safetensors_files(
                files,
                folder,
                index_file,
                self._encoder_only_lm_prefixes,
                weights_mapper=self._encoder_only_weights_mapper,
            )
            if not files:
                raise RuntimeError(
                    f"{source.model_or_path} has only weights of the language model, "
                    "which --mm-encoder-only leaves out"
                )
        is_shown = enable_tqdm(self.load_config.use_tqdm_on_load)
        shown = with_progress(sorted(files), is_shown)
        weights = read_weights(shown, self._skip(source), self.framework)
        if self.counter_before_loading_weights == 0.0:
            self.counter_before_loading_weights = time.perf_counter()
        return ((source.prefix + name, tensor) for name, tensor in weights)

    def _skip(self, source: Any) -> Callable[[str], bool]:
        """Returns a function that takes the name of a tensor and returns whether this
        process does not need it."""
        is_unused = source.is_unused_weight or (lambda _: False)

        def skip(name: str) -> bool:
            return bool(should_skip_weight(name, self.local_expert_ids) or is_unused(name))

        return skip
