"""Loading packed weights with the loaders of vLLM and SGLang."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import engines
import pytest
import torch
from safetensors.torch import save_file

import zstn

#: The start of the programs below. `folder` contains models, `expected` their weights.
PREAMBLE = """
import os, sys
sys.path.insert(0, {here!r})
import engines
engines.prepare({engines!r})
import torch
from safetensors.torch import load_file
import zstn
from zstn.plugins import _weights

folder = sys.argv[1]
expected = load_file(folder + "/plain/model.safetensors")
decoded = []

class Counting(zstn.safe_open):
    def get_tensor(self, name):
        decoded.append(name)
        return super().get_tensor(name)

_weights.safe_open = Counting

def bits(tensor):
    return tensor.dtype, tensor.shape, tensor.reshape(-1).view(torch.uint8).numpy().tobytes()

def check(weights, prefix="", names=None):
    weights = dict(weights)
    names = expected if names is None else names
    assert sorted(weights) == sorted(prefix + name for name in names), sorted(weights)
    for name in names:
        assert bits(weights[prefix + name]) == bits(expected[name]), name
"""

VLLM = """
from vllm import plugins
from vllm.config.load import LoadConfig
from vllm.model_executor import model_loader
from vllm.transformers_utils import config as configs

original = configs.get_safetensors_params_metadata
plugins.load_general_plugins()
found = model_loader._LOAD_FORMAT_TO_MODEL_LOADER["zstn"]
plugins.plugins_loaded = False
plugins.load_general_plugins()
assert model_loader._LOAD_FORMAT_TO_MODEL_LOADER["zstn"] is found
assert configs.get_safetensors_params_metadata.__wrapped__ is original

def loader(**options):
    # In capitals, as somebody may write it.
    return model_loader.get_model_loader(
        LoadConfig(load_format="ZSTN", use_tqdm_on_load=False, **options)
    )

one = loader()
assert type(one) is found and issubclass(found, model_loader.DefaultModelLoader)

def weights(model, loader=one, **options):
    return loader._get_weights_iterator(found.Source(str(model), None, **options))

for name in ("packed", "shards"):
    check(weights(f"{folder}/{name}", prefix="model."), prefix="model.")
assert sorted(decoded) == sorted([*expected, *expected])
assert one.counter_before_loading_weights > 0
# Not packed: what vLLM does itself, with other numbers of weights read by us.
decoded.clear()
check(weights(f"{folder}/plain"))
assert not decoded

# Experts of other ranks, and weights that the model does not use, are not decoded.
rank = loader()
rank.local_expert_ids = {1}
kept = [name for name in expected if not name.endswith(".experts.0.up.weight")]
decoded.clear()
check(weights(f"{folder}/shards", rank), names=kept)
assert sorted(decoded) == sorted(kept) and len(kept) == len(expected) - 1
kept = [name for name in expected if not name.startswith("lm_head")]
decoded.clear()
check(
    weights(f"{folder}/packed", is_unused_weight=lambda name: name.startswith("lm_head")),
    names=kept,
)
assert sorted(decoded) == sorted(kept)

# The shards of the language model are left out of an encoder.
encoder = loader()
encoder._encoder_only_lm_prefixes = ("model.", "lm_head")
check(weights(f"{folder}/shards", encoder), names=["vision.weight"])

# A repository of the hub, and the settings for downloads.
hub = loader(download_dir=f"{folder}/download")
check(weights("owner/packed", hub))
assert os.path.isdir(f"{folder}/download/models--owner--packed")
hub.download_model(type("Config", (), {"model": "owner/packed", "revision": None}))
overrides = ["model-00002*.safetensors"]
decoded.clear()
assert dict(weights(f"{folder}/shards", allow_patterns_overrides=overrides)).keys() < expected.keys()
assert 0 < len(decoded) < len(expected)

# What vLLM asks about weights before it loads them.
for model in (f"{folder}/packed", f"{folder}/shards", "owner/packed"):
    metadata = configs.get_safetensors_params_metadata(model)
    plain = configs.get_safetensors_params_metadata(f"{folder}/plain")
    plain.pop("__metadata__", None)
    assert {name: info["dtype"] for name, info in metadata.items()} == {
        name: info["dtype"] for name, info in plain.items()
    }, model
    assert configs.checkpoint_has_lm_head(model)
assert configs.get_safetensors_params_metadata(folder) == {}
from vllm.transformers_utils import model_arch_config_convertor
assert model_arch_config_convertor.get_safetensors_params_metadata(f"{folder}/packed")

try:
    dict(weights(f"{folder}/empty"))
except RuntimeError as error:
    assert "Cannot find any model weights" in str(error)
else:
    raise AssertionError
"""

SGLANG = """
from types import SimpleNamespace
from sglang.srt import plugins
from sglang.srt.configs.load_config import LoadConfig
from sglang.srt.model_loader import loader as loaders

# SGLang would replace it in a global variable, too.
original = [loaders.DefaultModelLoader._prepare_weights]
plugins.load_plugins()
hooked = [loaders.DefaultModelLoader._prepare_weights]
assert hooked[0].__wrapped__ is original[0]
plugins._plugins_loaded = False
plugins.load_plugins()
assert loaders.DefaultModelLoader._prepare_weights is hooked[0]

# The server has set these by the time weights are loaded.
settings = SimpleNamespace(
    model_checksum=None,
    weight_loader_disable_mmap=False,
    weight_loader_prefetch_checkpoints=False,
    weight_loader_prefetch_num_threads=1,
    weight_loader_drop_cache_after_load=False,
)
loaders.get_model = lambda: settings
loaders.get_server_args = lambda: None

def weights(model, *, load_format="auto", config=None, **options):
    loader = loaders.DefaultModelLoader(
        LoadConfig(load_format=load_format, model_loader_extra_config=config or {}, **options)
    )
    source = loaders.DefaultModelLoader.Source(str(model), None, prefix="model.")
    return loader._get_weights_iterator(source)

for load_format in ("auto", "safetensors"):
    for name in ("packed", "shards"):
        # In threads and in one.
        check(weights(f"{folder}/{name}", load_format=load_format), prefix="model.")
        one = {"enable_multithread_load": False}
        check(weights(f"{folder}/{name}", load_format=load_format, config=one), prefix="model.")
settings.weight_loader_disable_mmap = True
check(weights(f"{folder}/packed"), prefix="model.")
assert len(decoded) == 9 * len(expected)
settings.weight_loader_disable_mmap = False

decoded.clear()
check(weights(f"{folder}/plain"), prefix="model.")
check(weights("owner/plain", download_dir=f"{folder}/download"), prefix="model.")
assert not decoded
check(weights("owner/packed", download_dir=f"{folder}/download"), prefix="model.")
assert os.path.isdir(f"{folder}/download/models--owner--packed")
try:
    dict(weights(f"{folder}/packed", load_format="pt"))
except RuntimeError as error:
    assert "Cannot find any model weights" in str(error)
else:
    raise AssertionError
"""


@pytest.fixture(scope="module")
def fetched() -> Path:
    return engines.fetch(Path(__file__).parents[4] / "target" / "cache" / "engines")


@pytest.fixture
def models(tmp_path: Path, hub) -> Path:
    """Folders, and repositories on the hub, that contain the same weights."""
    torch.manual_seed(0)
    weights = {
        "model.embed.weight": torch.randn(50, 16).bfloat16(),
        "model.layers.0.experts.0.up.weight": torch.randn(24, 16).to(torch.float8_e4m3fn),
        "model.layers.0.experts.0.up.weight_scale": torch.tensor(0.5),
        "model.layers.0.experts.1.up.weight": torch.randn(24, 16).half(),
        "model.ids": torch.arange(12).reshape(3, 4),
        "lm_head.weight": torch.randn(50, 16).bfloat16(),
        "vision.weight": torch.randn(8, 3),
    }
    names = list(weights)
    plain = tmp_path / "plain"
    plain.mkdir()
    save_file(weights, plain / "model.safetensors", {"format": "pt"})
    (tmp_path / "packed").mkdir()
    zstn.pack(plain / "model.safetensors", tmp_path / "packed" / "model.zstn")
    sharded = tmp_path / "sharded"
    sharded.mkdir()
    weight_map = {}
    for number, part in enumerate([names[:4], names[4:6], names[6:]], 1):
        file = f"model-0000{number}-of-00003.safetensors"
        save_file({name: weights[name] for name in part}, sharded / file)
        weight_map |= dict.fromkeys(part, file)
    index = {"metadata": {"total_size": 1}, "weight_map": weight_map}
    (sharded / "model.safetensors.index.json").write_text(json.dumps(index))
    zstn.pack(sharded, tmp_path / "shards")
    (tmp_path / "empty").mkdir()
    hub.add("owner/packed", {"model.zstn": (tmp_path / "packed/model.zstn").read_bytes()})
    hub.add("owner/plain", {"model.safetensors": (plain / "model.safetensors").read_bytes()})
    return tmp_path


@pytest.mark.parametrize("program", [VLLM, SGLANG], ids=["vllm", "sglang"])
def test_loading(program: str, models: Path, fetched: Path) -> None:
    preamble = PREAMBLE.format(here=str(Path(__file__).parent), engines=str(fetched))
    command = [sys.executable, "-c", preamble + program, str(models)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-6000:]
