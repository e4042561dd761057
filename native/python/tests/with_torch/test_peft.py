"""Loading packed peft adapters."""

from __future__ import annotations

from pathlib import Path

import peft
import pytest
import torch
from stub_hub import StubHub
from with_torch.conftest import assert_same_bits
from with_torch.test_transformers import make_model

import zstn
from zstn.hub import shadow_folder


def make_adapted(seed: int) -> peft.PeftModel:
    torch.manual_seed(seed)
    config = peft.LoraConfig(r=2, target_modules=["q_proj"], init_lora_weights=False)
    return peft.get_peft_model(make_model(), config)


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    make_adapted(1).save_pretrained(tmp_path / "adapter")
    zstn.pack(tmp_path / "adapter", tmp_path / "packed")
    assert (tmp_path / "packed" / "adapter_model.zstn").is_file()
    return tmp_path / "packed"


def adapter_weights(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {
        # The wrapper of peft adds a prefix, and names contain the adapter's name.
        name.removeprefix("base_model.model."): tensor
        for name, tensor in model.state_dict().items()
        if "lora_" in name
    }


def test_transformers_loads_an_adapter(enabled: None, packed: Path, hub: StubHub) -> None:
    def load(name: str | Path) -> dict[str, torch.Tensor]:
        model = make_model()
        model.load_adapter(str(name))
        return adapter_weights(model)

    hub.add("org/adapter", packed)
    expected = load(packed.with_name("adapter"))
    assert expected
    for name in (packed, "org/adapter"):
        assert_same_bits(load(name), expected)


def test_peft_loads_the_shadow_folder(enabled: None, packed: Path) -> None:
    folder = shadow_folder(packed)
    assert folder is not None
    model = peft.PeftModel.from_pretrained(make_model(), folder)
    assert_same_bits(adapter_weights(model), adapter_weights(make_adapted(1)))
