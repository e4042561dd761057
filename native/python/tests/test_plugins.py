"""Plug-ins for vLLM and SGLang, with doubles of the classes that they extend. The real
classes need PyTorch (with_torch/test_engines.py)."""

from __future__ import annotations

import glob
import importlib
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import zstn.numpy
from conftest import assert_same

pytest.importorskip("huggingface_hub")
pytest.importorskip("tqdm")

VLLM_LOADERS = "vllm.model_executor.model_loader"


class DefaultModelLoader:
    """Does the same as the loader of vLLM 0.33, for files in a local folder."""

    Source = SimpleNamespace

    def __init__(self, load_config: Any) -> None:
        self.load_config = load_config
        self.local_expert_ids: set[int] | None = None
        self.counter_before_loading_weights = 0.0
        self._encoder_only_lm_prefixes = None

    def _prepare_weights(self, model, subfolder, revision, fall_back_to_pt, overrides):
        assert self.load_config.load_format == "auto"
        files = glob.glob(f"{model}/*.safetensors")
        return model, files, bool(files), "model.safetensors.index.json"

    def _get_weights_iterator(self, source: Any) -> Iterator[tuple[str, Any]]:
        return iter([("loaded by", "vLLM")])


@pytest.fixture
def vllm(monkeypatch: pytest.MonkeyPatch) -> dict[str, type]:
    """Returns the registered loaders."""
    registered: dict[str, type] = {}

    def register_model_loader(name: str):
        assert name not in registered
        return lambda loader: registered.setdefault(name, loader)

    def should_skip_weight(name: str, local: set[int] | None) -> bool:
        return local is not None and name == "ids"

    config = SimpleNamespace(get_safetensors_params_metadata=lambda model, *, revision=None: {})
    modules: dict[str, dict[str, Any]] = {
        "vllm": {},
        "vllm.model_executor": {},
        VLLM_LOADERS: {"register_model_loader": register_model_loader},
        f"{VLLM_LOADERS}.default_loader": {"DefaultModelLoader": DefaultModelLoader},
        f"{VLLM_LOADERS}.ep_weight_filter": {"should_skip_weight": should_skip_weight},
        f"{VLLM_LOADERS}.weight_utils": {
            "enable_tqdm": lambda _: False,
            "filter_mm_encoder_only_safetensors_files": None,
            "maybe_download_from_modelscope": lambda model, revision: None,
        },
        "vllm.transformers_utils": {},
        "vllm.transformers_utils.config": vars(config),
    }
    for name, content in modules.items():
        module = ModuleType(name)
        vars(module).update(content, __path__=[])
        monkeypatch.setitem(sys.modules, name, module)
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], last, module)
    for name in ("vllm", "_vllm_loader"):
        monkeypatch.delitem(sys.modules, f"zstn.plugins.{name}", raising=False)
    return registered


def plugin(name: str) -> Any:
    return importlib.import_module(f"zstn.plugins.{name}")


@pytest.fixture
def shards(tmp_path: Path, tensors, cache: Path) -> Path:
    """A folder with a packed file and a plain file."""
    folder = tmp_path / "shards"
    folder.mkdir()
    parts = list(tensors.items())
    zstn.numpy.save_file(dict(parts[:3]), folder / "a.zstn")
    zstn.numpy.save_file(dict(parts[3:]), folder / "b.safetensors")
    return folder


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []

    class Counting(zstn.safe_open):
        def get_tensor(self, name: str) -> Any:
            names.append(name)
            return super().get_tensor(name)

    monkeypatch.setattr("zstn.plugins._weights.safe_open", Counting)
    return names


def test_entry_points() -> None:
    for group, engine in [("vllm.general_plugins", "vllm"), ("sglang.srt.plugins", "sglang")]:
        (point,) = entry_points(group=group, name="zstn")
        assert point.value == f"zstn.plugins.{engine}:register"
        assert callable(point.load())


def test_vllm_loads_packed_weights(vllm, shards: Path, tensors, decoded: list[str]) -> None:
    plugin("vllm").register()
    plugin("vllm").register()
    assert list(vllm) == ["zstn"]
    config = SimpleNamespace(
        load_format="zstn",
        download_dir=None,
        ignore_patterns=["original/**/*"],
        safetensors_load_strategy=None,
        use_tqdm_on_load=True,
    )
    loader = vllm["zstn"](config)
    loader.framework = "np"
    source = SimpleNamespace(
        model_or_path=str(shards),
        subfolder=None,
        revision=None,
        prefix="model.",
        fall_back_to_pt=True,
        allow_patterns_overrides=None,
        is_unused_weight=None,
    )
    expected = {f"model.{name}": array for name, array in tensors.items()}
    assert_same(dict(loader._get_weights_iterator(source)), expected)
    assert loader.counter_before_loading_weights > 0 and config.load_format == "zstn"

    loader.local_expert_ids = {0}
    source.is_unused_weight = lambda name: name == "mask"
    decoded.clear()
    del expected["model.ids"], expected["model.mask"]
    assert_same(dict(loader._get_weights_iterator(source)), expected)
    assert sorted(f"model.{name}" for name in decoded) == sorted(expected)

    config.safetensors_load_strategy = "torchao"
    with pytest.raises(ValueError, match="unpack"):
        loader._get_weights_iterator(source)
    (shards / "a.zstn").unlink()
    assert dict(loader._get_weights_iterator(source)) == {"loaded by": "vLLM"}


def test_vllm_knows_dtypes_of_packed_weights(vllm, shards: Path, hub, tensors) -> None:
    config = sys.modules["vllm.transformers_utils.config"]
    plugin("vllm").install_metadata()
    get = config.get_safetensors_params_metadata
    plugin("vllm").install_metadata()
    assert config.get_safetensors_params_metadata is get
    hub.add("owner/name", {"a.zstn": (shards / "a.zstn").read_bytes(), "x/b.zstn": b"no"})
    expected = {name: list(array.shape) for name, array in list(tensors.items())[:3]}
    for model in (str(shards), "owner/name"):
        found = get(model, revision=None)
        assert {name: info["shape"] for name, info in found.items()} == expected
        assert found["wte.weight"]["dtype"] == "F32"
    assert get("owner/nothing") == get(str(shards / "nothing")) == {}


def test_a_version_of_vllm_that_is_not_known(
    vllm, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delattr(sys.modules[VLLM_LOADERS], "register_model_loader")
    plugin("vllm").register()
    assert vllm == {} and "cannot use the load format zstn" in caplog.text


def test_sglang_hooks(
    shards: Path, plain: Path, tensors, caplog: pytest.LogCaptureFixture, monkeypatch, cache: Path
) -> None:
    sglang = plugin("sglang")
    config = SimpleNamespace(load_format="auto", download_dir=None, ignore_patterns=None)
    loader = SimpleNamespace(
        load_config=config, _maybe_download_from_modelscope=lambda model, revision: model
    )

    def prepare(loader, model, revision, fall_back_to_pt, overrides):
        return model, sorted(glob.glob(f"{model}/*.safetensors")), fall_back_to_pt

    def prepared(model: Path) -> tuple[str, list[str], bool]:
        return sglang.prepare_weights(prepare, loader, str(model), None, False)

    folder, files, _ = prepared(shards)
    assert folder != str(shards) and [Path(file).name for file in files] == [
        "a.safetensors",
        "b.safetensors",
    ]
    monkeypatch.setattr(sglang, "_is_first_rank", lambda: False)
    monkeypatch.setattr(sglang, "read_weights", lambda files: zip_weights(files))
    assert_same(dict(sglang.iterate_weights(never, files, 8, disable_mmap=False)), tensors)

    # Models that are not packed, and other formats than safetensors, are left to
    # SGLang.
    other = shards.parent / "other"
    other.mkdir()
    plain = plain.rename(other / plain.name)
    assert prepared(other)[0] == str(other)
    config.load_format = "pt"
    assert prepared(shards)[0] == str(shards)
    config.load_format = "auto"
    calls = []
    sglang.iterate_weights(lambda *args, **options: calls.append((args, options)), [plain], 8, a=1)
    assert calls == [(([plain], 8), {"a": 1})]
    # No failure in the plug-in prevents plain models from loading.
    monkeypatch.setattr(sglang, "folder_of_packed", never)
    assert prepared(shards)[0] == str(shards) and "cannot look for packed" in caplog.text


def never(*_: Any, **__: Any) -> Any:
    raise AssertionError("not to be called")


def zip_weights(files: Any) -> Iterator[tuple[str, np.ndarray]]:
    from zstn.plugins._weights import read_weights

    return read_weights(files, framework="np")
