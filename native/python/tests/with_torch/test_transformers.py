"""Loading packed models in transformers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import accelerate
import pytest
import safetensors
import safetensors.torch
import torch
import transformers
from stub_hub import StubHub
from transformers import AutoModel, AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM
from with_torch.conftest import assert_same_bits

import zstn
from zstn.hub import shadow_folder, snapshot_download

# The tested version of transformers. Another version may find its files by other
# functions; these tests would then fail.
VERSION = "5.23"


def make_model(seed: int = 0) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    config = LlamaConfig(
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=120,
        tie_word_embeddings=True,
        dtype="bfloat16",
    )
    return LlamaForCausalLM(config).to(torch.bfloat16)


def write_model(folder: Path, shards: bool = False, seed: int = 0, **options: object) -> Path:
    size = "20KB" if shards else "1GB"
    make_model(seed).save_pretrained(folder, max_shard_size=size, **options)
    assert (folder / "model.safetensors.index.json").exists() == (
        shards and "variant" not in options
    )
    return folder


def pack(plain: Path) -> Path:
    packed = plain.with_name(f"{plain.name}-packed")
    zstn.pack(plain, packed)
    assert not list(packed.rglob("*.safetensors"))
    return packed


def load(name: str | Path, **options: object) -> dict[str, torch.Tensor]:
    return AutoModelForCausalLM.from_pretrained(name, **options).state_dict()


def output(model: torch.nn.Module) -> torch.Tensor:
    with torch.no_grad():
        return model(torch.arange(10)[None]).logits


@pytest.fixture(params=[False, True], ids=["one file", "shards"])
def plain(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return write_model(tmp_path / "plain", request.param)


@pytest.fixture
def expected() -> dict[str, torch.Tensor]:
    return make_model().state_dict()


def test_this_is_the_version_it_is_written_for() -> None:
    assert transformers.__version__.startswith(VERSION)


def test_a_folder(enabled: None, plain: Path, expected: dict[str, torch.Tensor]) -> None:
    assert_same_bits(load(pack(plain)), expected)


def test_a_model_without_its_head(enabled: None, plain: Path) -> None:
    found = AutoModel.from_pretrained(pack(plain)).state_dict()
    assert_same_bits(found, make_model().model.state_dict())


def test_a_repository(
    enabled: None, hub: StubHub, plain: Path, expected: dict[str, torch.Tensor]
) -> None:
    packed = pack(plain)
    hub.add("org/model", packed, private=True)
    assert_same_bits(load("org/model", token="hf_secret"), expected)
    weights = {path.name for path in packed.iterdir() if "zstn" in path.name}
    assert weights <= hub.fetched("org/model")
    # The model is loaded from the cache only.
    hub.clear_log()
    assert_same_bits(load("org/model", local_files_only=True), expected)
    assert not hub.requests
    with pytest.raises(OSError, match="org/model"):
        load("org/model", token="wrong", cache_dir=plain.parent / "other")


def test_a_revision_of_a_repository(enabled: None, hub: StubHub, tmp_path: Path) -> None:
    first = hub.add("org/revised", pack(write_model(tmp_path / "first")))
    hub.add("org/revised", pack(write_model(tmp_path / "second", seed=1)))
    assert_same_bits(load("org/revised", revision=first), make_model(0).state_dict())
    assert_same_bits(load("org/revised"), make_model(1).state_dict())


def test_weights_that_are_kept_on_disk(
    enabled: None, plain: Path, tmp_path: Path, expected: dict[str, torch.Tensor]
) -> None:
    def load_from(folder: Path) -> torch.nn.Module:
        return AutoModelForCausalLM.from_pretrained(
            folder, device_map={"": "disk"}, offload_folder=tmp_path / "offload"
        )

    packed = pack(plain)
    before = set(os.listdir(tmp_path)), open_files()
    model = load_from(packed)
    assert model.model.layers[0].mlp.up_proj.weight.device.type == "meta"
    found = accelerate.utils.modeling.get_state_dict_offloaded_model(model)
    # The head and the embedding share their weights.
    assert_same_bits({**found, "lm_head.weight": found["model.embed_tokens.weight"]}, expected)
    assert torch.equal(output(model), output(AutoModelForCausalLM.from_pretrained(plain)))
    # No file is unpacked, and no file remains open.
    assert set(os.listdir(tmp_path)) - before[0] <= {"offload", "zstn-cache"}
    assert open_files() == before[1]
    assert not list((tmp_path / "zstn-cache").glob("*/model.safetensors"))


def open_files() -> int:
    import gc

    gc.collect()
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


def test_without_mapping(enabled: None, plain: Path, expected: dict[str, torch.Tensor]) -> None:
    assert_same_bits(load(pack(plain), disable_mmap=True), expected)


@pytest.mark.parametrize("order", ["import transformers, zstn", "import zstn, transformers"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_the_order_of_imports_does_not_matter(plain: Path, order: str, when: str) -> None:
    # transformers imports its submodules on first use.
    use = "from transformers import AutoModelForCausalLM, LlamaForCausalLM"
    steps = ["zstn.enable_hf()", use] if when == "before" else [use, "zstn.enable_hf()"]
    program = "\n".join([
        "import sys",
        order,
        *steps,
        "AutoModelForCausalLM.from_pretrained(sys.argv[1])",
        "zstn.disable_hf()",
        "try:",
        "    AutoModelForCausalLM.from_pretrained(sys.argv[1])",
        "except OSError:",
        "    print('as before')",
    ])  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", program, pack(plain)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "as before"


def test_plain_models_are_loaded_as_before(
    enabled: None, plain: Path, hub: StubHub, expected: dict[str, torch.Tensor]
) -> None:
    hub.add("org/plain", plain)
    assert_same_bits(load(plain), expected)
    assert_same_bits(load("org/plain"), expected)
    hub.clear_log()
    assert_same_bits(load("org/plain", local_files_only=True), expected)
    assert not hub.requests
    assert not list(plain.parent.glob("zstn-cache/*"))


def test_what_is_not_there_is_reported_as_before(
    enabled: None, hub: StubHub, tmp_path: Path
) -> None:
    make_model().config.save_pretrained(tmp_path / "none")
    hub.add("org/none", tmp_path / "none")
    for name in (tmp_path / "none", "org/none"):
        with pytest.raises(OSError) as found:
            load(name)
        zstn.disable_hf()
        with pytest.raises(OSError) as expected:
            load(name)
        zstn.enable_hf()
        assert str(found.value) == str(expected.value)


def test_which_of_both_is_preferred(hub: StubHub, tmp_path: Path) -> None:
    both = write_model(tmp_path / "both", seed=0)
    other = write_model(tmp_path / "other", seed=1)
    zstn.pack(other / "model.safetensors", both / "model.zstn")
    hub.add("org/both", both)
    packed_only = pack(other)
    hub.add("org/only", packed_only)
    try:
        for prefer_packed, seed in ((True, 1), (False, 0)):
            zstn.enable_hf(prefer_packed=prefer_packed)
            for name in (both, "org/both"):
                assert_same_bits(load(name), make_model(seed).state_dict())
            for name in (packed_only, "org/only"):
                assert_same_bits(load(name), make_model(1).state_dict())
    finally:
        zstn.disable_hf()


@pytest.mark.parametrize("source", ["folder", "repository"])
def test_names_of_files(enabled: None, hub: StubHub, tmp_path: Path, source: str) -> None:
    # A variant, a subfolder, and a file name from the configuration.
    root = tmp_path / "root"
    root.mkdir()
    write_model(tmp_path / "plain")
    weights = tmp_path / "plain" / "model.safetensors"
    for folder, name in (("", "model.half.zstn"), ("deep/er", "model.zstn"), ("own", "own.zstn")):
        (root / folder).mkdir(parents=True, exist_ok=True)
        zstn.pack(weights, root / folder / name)
        shutil.copy(tmp_path / "plain" / "config.json", root / folder)
    config = json.loads((root / "own" / "config.json").read_text())
    config["transformers_weights"] = "own.safetensors"
    (root / "own" / "config.json").write_text(json.dumps(config))
    hub.add("org/names", root)
    name = root if source == "folder" else "org/names"
    expected = make_model().state_dict()
    assert_same_bits(load(name, variant="half"), expected)
    assert_same_bits(load(name, subfolder="deep/er"), expected)
    assert_same_bits(load(name, subfolder="own", use_safetensors=True), expected)
    with pytest.raises(OSError):
        load(name, variant="double")


def test_a_name_that_leads_out_of_the_folder_is_refused(enabled: None, tmp_path: Path) -> None:
    packed = pack(write_model(tmp_path / "plain"))
    shutil.move(packed / "model.zstn", tmp_path / "outside.zstn")
    config = json.loads((packed / "config.json").read_text())
    (packed / "config.json").write_text(
        json.dumps({**config, "transformers_weights": "../outside.safetensors"})
    )
    with pytest.raises((ValueError, zstn.ZstnError)):
        load(packed)
    (packed / "config.json").write_text(json.dumps(config))
    index = {"metadata": {}, "weight_map": {"model.norm.weight": "../outside.zstn"}}
    (packed / "model.zstn.index.json").write_text(json.dumps(index))
    with pytest.raises(zstn.ZstnError, match="outside"):
        load(packed)
    # Two leading slashes begin a special kind of absolute path.
    private = tmp_path / "private"
    private.write_bytes(b"a key")
    index["weight_map"] = {"model.norm.weight": f"/{private}"}
    (packed / "model.zstn.index.json").write_text(json.dumps(index))
    with pytest.raises(zstn.ZstnError, match="private"):
        load(packed)
    assert not private.is_symlink() and private.read_bytes() == b"a key"


def test_the_dtype_is_taken_from_the_weights(enabled: None, tmp_path: Path) -> None:
    packed = pack(write_model(tmp_path / "plain"))
    config = json.loads((packed / "config.json").read_text())
    for key in ("dtype", "torch_dtype"):
        config.pop(key, None)
    (packed / "config.json").write_text(json.dumps(config))
    model = AutoModelForCausalLM.from_pretrained(packed, dtype="auto")
    assert model.dtype == torch.bfloat16


def test_the_folders_of_the_hub_module(
    plain: Path, hub: StubHub, expected: dict[str, torch.Tensor]
) -> None:
    hub.add("org/materialised", pack(plain))
    # The patch is not used.
    assert_same_bits(load(snapshot_download("org/materialised")), expected)


def test_accelerate_loads_the_shadow_folder(
    enabled: None, plain: Path, expected: dict[str, torch.Tensor]
) -> None:
    folder = shadow_folder(pack(plain))
    assert folder is not None
    with accelerate.init_empty_weights():
        model = LlamaForCausalLM(make_model().config).to(torch.bfloat16)
    model.tie_weights()
    model = accelerate.load_checkpoint_and_dispatch(model, folder, device_map={"": "cpu"})
    assert_same_bits(model.state_dict(), expected)


class TestSafetensors:
    """Functions of safetensors.torch with a packed file."""

    @pytest.fixture
    def shown(self, tmp_path: Path) -> Path:
        folder = shadow_folder(pack(write_model(tmp_path / "plain")))
        assert folder is not None
        return Path(folder, "model.safetensors")

    def test_functions(self, enabled: None, shown: Path, tmp_path: Path) -> None:
        expected = safetensors.torch.load_file(tmp_path / "plain" / "model.safetensors")
        assert_same_bits(safetensors.torch.load_file(shown), expected)
        assert_same_bits(safetensors.torch.load_file(shown, backend="pread"), expected)
        assert_same_bits(safetensors.torch.load(shown.read_bytes()), expected)
        with safetensors.safe_open(shown, "pt", device="cpu") as file:
            assert_same_bits(file.get_tensors(), expected)

    def test_load_model(self, enabled: None, shown: Path) -> None:
        # The function passes on the backend, also for plain files.
        model = make_model(seed=1)
        for path in (shown, shown.resolve()):
            missing, unexpected = safetensors.torch.load_model(model, path)
            assert not missing
            assert not unexpected
        assert_same_bits(model.state_dict(), make_model().state_dict())
