"""Loading packed models and pipelines in diffusers."""

from __future__ import annotations

import json
import os
from pathlib import Path

import diffusers
import pytest
import safetensors.torch
import torch
from diffusers import (
    AutoencoderKL,
    AutoPipelineForText2Image,
    DDIMScheduler,
    DiffusionPipeline,
    ModelMixin,
    StableDiffusionPipeline,
    UNet2DConditionModel,
)
from stub_hub import StubHub
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer
from with_torch.conftest import assert_same_bits

import zstn

# The tested version of diffusers.
VERSION = "0.42"


def make_pipeline(folder: Path, seed: int = 0) -> StableDiffusionPipeline:
    torch.manual_seed(seed)
    unet = UNet2DConditionModel(
        sample_size=8,
        block_out_channels=(8, 16),
        layers_per_block=1,
        norm_num_groups=4,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=16,
        attention_head_dim=4,
    )
    vae = AutoencoderKL(block_out_channels=(8,), norm_num_groups=4, latent_channels=4)
    text_encoder = CLIPTextModel(
        CLIPTextConfig(
            vocab_size=8,
            hidden_size=16,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            bos_token_id=0,
            eos_token_id=1,
        )
    )
    folder.mkdir()
    words = ["<|startoftext|>", "<|endoftext|>", "a", "b", "a</w>", "b</w>"]
    (folder / "vocab.json").write_text(json.dumps({word: n for n, word in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    return StableDiffusionPipeline(
        vae=vae,
        text_encoder=text_encoder,
        tokenizer=CLIPTokenizer.from_pretrained(folder),
        unet=unet,
        scheduler=DDIMScheduler(clip_sample=False, steps_offset=1),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


def weights(pipeline: DiffusionPipeline) -> dict[str, torch.Tensor]:
    return {
        f"{part}.{name}": tensor
        for part in ("unet", "vae", "text_encoder")
        for name, tensor in getattr(pipeline, part).state_dict().items()
    }


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> StableDiffusionPipeline:
    return make_pipeline(tmp_path_factory.mktemp("tokenizer") / "files")


@pytest.fixture
def plain(original: StableDiffusionPipeline, tmp_path: Path) -> Path:
    original.save_pretrained(tmp_path / "plain")
    return tmp_path / "plain"


@pytest.fixture
def packed(plain: Path) -> Path:
    zstn.pack(plain, plain.with_name("packed"))
    return plain.with_name("packed")


def test_this_is_the_version_it_is_written_for() -> None:
    assert diffusers.__version__.startswith(VERSION)


def test_a_model(
    enabled: None, original: StableDiffusionPipeline, packed: Path, hub: StubHub
) -> None:
    hub.add("org/parts", packed)
    expected = original.unet.state_dict()
    for name in (packed, "org/parts"):
        model = UNet2DConditionModel.from_pretrained(name, subfolder="unet")
        assert_same_bits(model.state_dict(), expected)
    assert all(file.startswith("unet/") for file in hub.fetched("org/parts"))
    model = UNet2DConditionModel.from_pretrained(pretrained_model_name_or_path=packed / "unet")
    assert_same_bits(model.state_dict(), expected)


def test_a_model_in_shards(
    enabled: None, original: StableDiffusionPipeline, tmp_path: Path, hub: StubHub
) -> None:
    original.unet.save_pretrained(tmp_path / "shards", max_shard_size="20KB")
    zstn.pack(tmp_path / "shards", tmp_path / "packed-shards")
    assert len(list((tmp_path / "packed-shards").glob("*.zstn"))) > 2
    hub.add("org/shards", tmp_path / "packed-shards")
    for name in (tmp_path / "packed-shards", "org/shards"):
        for options in ({}, {"disable_mmap": True}, {"low_cpu_mem_usage": False}):
            model = UNet2DConditionModel.from_pretrained(name, **options)
            assert_same_bits(model.state_dict(), original.unet.state_dict())


def test_a_pipeline(
    enabled: None, original: StableDiffusionPipeline, packed: Path, hub: StubHub
) -> None:
    hub.add("org/pipeline", packed)
    for name in (packed, "org/pipeline"):
        for owner in (DiffusionPipeline, StableDiffusionPipeline, AutoPipelineForText2Image):
            found = owner.from_pretrained(name)
            assert type(found) is StableDiffusionPipeline
            assert_same_bits(weights(found), weights(original))
    hub.clear_log()
    found = DiffusionPipeline.from_pretrained(
        pretrained_model_name_or_path="org/pipeline", local_files_only=True
    )
    assert_same_bits(weights(found), weights(original))
    assert not hub.requests


def test_a_pipeline_with_some_packed_parts(
    enabled: None, original: StableDiffusionPipeline, plain: Path, hub: StubHub
) -> None:
    weights_of_unet = plain / "unet" / "diffusion_pytorch_model.safetensors"
    zstn.pack(weights_of_unet, weights_of_unet.with_suffix(".zstn"))
    weights_of_unet.unlink()
    (plain / "whole.ckpt").write_bytes(b"for another program")
    hub.add("org/some", plain)
    for name in (plain, "org/some"):
        assert_same_bits(weights(DiffusionPipeline.from_pretrained(name)), weights(original))
    assert "whole.ckpt" not in hub.fetched("org/some")


def test_variants(
    enabled: None, original: StableDiffusionPipeline, plain: Path, hub: StubHub
) -> None:
    half = {name: tensor.half() for name, tensor in original.unet.state_dict().items()}
    both = plain.with_name("variants")
    zstn.pack(plain, both)
    file = plain.with_name("half.safetensors")
    safetensors.torch.save_file(half, file, {"format": "pt"})
    zstn.pack(file, both / "unet" / "diffusion_pytorch_model.half.zstn")
    hub.add("org/variants", both)
    for name in ("org/variants", both):
        found = DiffusionPipeline.from_pretrained(name, variant="half", dtype=torch.float16)
        assert_same_bits(found.unet.state_dict(), half)
        assert "unet/diffusion_pytorch_model.zstn" not in hub.fetched("org/variants")
    found = DiffusionPipeline.from_pretrained("org/variants")
    assert_same_bits(weights(found), weights(original))


def test_a_part_that_the_caller_has_is_not_downloaded(
    enabled: None, original: StableDiffusionPipeline, packed: Path, hub: StubHub
) -> None:
    hub.add("org/without", packed)
    DiffusionPipeline.from_pretrained("org/without", unet=original.unet)
    fetched = hub.fetched("org/without")
    assert "vae/diffusion_pytorch_model.zstn" in fetched
    assert "unet/diffusion_pytorch_model.zstn" not in fetched


def test_plain_pipelines_are_loaded_as_before(
    enabled: None, original: StableDiffusionPipeline, plain: Path, hub: StubHub
) -> None:
    hub.add("org/plain-pipeline", plain)
    for name in (plain, "org/plain-pipeline"):
        assert_same_bits(weights(DiffusionPipeline.from_pretrained(name)), weights(original))
    hub.clear()
    found = DiffusionPipeline.from_pretrained("org/plain-pipeline", local_files_only=True)
    assert_same_bits(weights(found), weights(original))
    assert not os.path.exists(plain.parent / "zstn-cache")


def test_what_is_not_there_is_reported_as_before(enabled: None, plain: Path, hub: StubHub) -> None:
    hub.add("org/hidden", plain, private=True)
    for owner, name in (
        (DiffusionPipeline, "org/missing"),
        (DiffusionPipeline, "org/hidden"),
        (DiffusionPipeline, "no/such/folder"),
        (DiffusionPipeline, plain / "unet"),
        (UNet2DConditionModel, "org/missing"),
        (UNet2DConditionModel, "./no/such/folder"),
        (UNet2DConditionModel, plain),
    ):
        with pytest.raises(Exception) as found:
            owner.from_pretrained(name)
        zstn.disable_hf()
        with pytest.raises(type(found.value)) as expected:
            owner.from_pretrained(name)
        zstn.enable_hf()
        assert str(found.value) == str(expected.value)


def test_plain_weights_are_preferred_if_wished(
    original: StableDiffusionPipeline, packed: Path, plain: Path, hub: StubHub, tmp_path: Path
) -> None:
    hub.add("org/packed-pipeline", packed)
    other = make_pipeline(tmp_path / "other-tokenizer", seed=1)
    other.unet.save_pretrained(tmp_path / "other")
    zstn.pack(
        tmp_path / "other" / "diffusion_pytorch_model.safetensors",
        plain / "unet" / "diffusion_pytorch_model.zstn",
    )
    hub.add("org/both-pipeline", plain)
    try:
        zstn.enable_hf(prefer_packed=False)
        for name in (packed, "org/packed-pipeline", plain, "org/both-pipeline"):
            assert_same_bits(weights(DiffusionPipeline.from_pretrained(name)), weights(original))
        zstn.enable_hf()
        for name in (plain, "org/both-pipeline"):
            found = DiffusionPipeline.from_pretrained(name)
            assert_same_bits(found.unet.state_dict(), other.unet.state_dict())
    finally:
        zstn.disable_hf()


def test_code_of_a_repository_is_not_run_without_consent(
    enabled: None, packed: Path, hub: StubHub
) -> None:
    index = json.loads((packed / "model_index.json").read_text())
    index["_class_name"] = ["custom", "Custom"]
    (packed / "model_index.json").write_text(json.dumps(index))
    (packed / "custom.py").write_text("raise SystemExit('this was run')\n")
    hub.add("org/code", packed)
    with pytest.raises(Exception, match="trust_remote_code"):
        DiffusionPipeline.from_pretrained("org/code")


def test_disabling_restores_the_methods(plain: Path) -> None:
    owners = [(ModelMixin, "from_pretrained"), (DiffusionPipeline, "from_pretrained"),
              (DiffusionPipeline, "download")]  # fmt: skip
    before = [vars(owner)[name] for owner, name in owners]
    zstn.enable_hf()
    assert all(
        vars(owner)[name] is not method
        for (owner, name), method in zip(owners, before, strict=True)
    )
    zstn.disable_hf()
    assert [vars(owner)[name] for owner, name in owners] == before
