"""Packed checkpoints of training runs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import accelerate
import pytest
import torch
import transformers
from transformers import Trainer, TrainingArguments

import zstn
from zstn.training import BackgroundPacker, PackedCheckpoints, restore_checkpoint
from zstn.training.transformers import PackCheckpoints

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_packed.py"


class Data(torch.utils.data.Dataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        values = torch.arange(16) * (index + 1) % 50
        return {"input_ids": values, "labels": values}


def make_trainer(out: Path, *callbacks: Any, steps: int = 6, **options: Any) -> Trainer:
    transformers.set_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4, vocab_size=50,
    )  # fmt: skip
    options = {"eval_strategy": "no", "save_strategy": "steps", **options}
    arguments = TrainingArguments(
        output_dir=str(out), max_steps=steps, save_steps=1, per_device_train_batch_size=4,
        report_to=[], use_cpu=True, disable_tqdm=True, logging_strategy="no", **options,
    )  # fmt: skip
    return Trainer(
        transformers.LlamaForCausalLM(config), arguments, train_dataset=Data(),
        eval_dataset=Data(), callbacks=list(callbacks),
    )  # fmt: skip


def content(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def checkpoints(out: Path) -> list[str]:
    return sorted(path.name for path in out.glob("checkpoint-*"))


def state(trainer: Trainer) -> dict[str, bytes]:
    assert trainer.model is not None
    return {name: value.numpy().tobytes() for name, value in trainer.model.state_dict().items()}


def test_a_run_is_packed_and_resumed_from_any_checkpoint(tmp_path: Path) -> None:
    make_trainer(tmp_path / "plain").train()
    whole = make_trainer(tmp_path / "run", PackCheckpoints(max_chain=2))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        whole.train()
    assert checkpoints(tmp_path / "run") == ["checkpoint-6"]
    store = PackedCheckpoints(tmp_path / "run" / "packed")
    assert store.names() == [f"checkpoint-{step}" for step in range(1, 7)]
    files = [store.get(name).file("model.safetensors") for name in store.names()]
    assert [file and file.base for file in files] == [
        None, "checkpoint-1", "checkpoint-2", None, "checkpoint-4", "checkpoint-5"
    ]  # fmt: skip
    for step in (2, 6):
        store.restore(f"checkpoint-{step}", tmp_path / "restored" / f"checkpoint-{step}")
    found = content(tmp_path / "restored" / "checkpoint-6")
    assert found == content(tmp_path / "run" / "checkpoint-6")
    resumed = make_trainer(tmp_path / "other")
    resumed.train(resume_from_checkpoint=str(tmp_path / "restored" / "checkpoint-2"))
    assert state(resumed) == state(whole)


def test_the_limit_keeps_the_bases_that_are_needed(tmp_path: Path) -> None:
    make_trainer(tmp_path, PackCheckpoints(max_chain=2), save_total_limit=2).train()
    store = PackedCheckpoints(tmp_path / "packed")
    # The Trainer may have removed others before their turn.
    assert store.names()[-2:] == ["checkpoint-5", "checkpoint-6"]
    last = [store.get(name) for name in store.names()[-2:]]
    assert {base for checkpoint in last for base in checkpoint.bases} <= set(store.names())
    assert len(store.names()) <= 4
    assert checkpoints(tmp_path)[-1] == "checkpoint-6"
    assert restore_checkpoint(tmp_path / "packed" / "checkpoint-5") == str(tmp_path / "checkpoint-5")


def test_the_best_checkpoint_stays(tmp_path: Path) -> None:
    trainer = make_trainer(
        tmp_path, PackCheckpoints(limit=1), eval_strategy="steps", eval_steps=1,
        load_best_model_at_end=True, metric_for_best_model="eval_loss", greater_is_better=True,
    )  # fmt: skip
    trainer.train()
    best = trainer.state.best_model_checkpoint
    assert best is not None and Path(best).is_dir()
    assert Path(best).name in PackedCheckpoints(tmp_path / "packed").names()
    assert set(checkpoints(tmp_path)) == {Path(best).name, "checkpoint-6"}


def test_a_resumed_run_packs_what_the_first_one_left(tmp_path: Path) -> None:
    make_trainer(tmp_path, steps=3).train()
    assert len(checkpoints(tmp_path)) == 3
    trainer = make_trainer(tmp_path, PackCheckpoints(), steps=5)
    trainer.train(resume_from_checkpoint=True)
    assert checkpoints(tmp_path) == ["checkpoint-5"]
    assert len(PackedCheckpoints(tmp_path / "packed").names()) == 5


def test_a_failure_is_a_warning_and_leaves_the_originals(tmp_path: Path) -> None:
    (tmp_path / "packed").write_text("this is no folder")
    with pytest.warns(RuntimeWarning, match="checkpoint-. could not be packed") as warned:
        make_trainer(tmp_path, PackCheckpoints(), steps=3).train()
    assert sum("could not be packed" in str(warning.message) for warning in warned) == 3
    assert len(checkpoints(tmp_path)) == 3


def test_options_are_checked_at_once() -> None:
    for options in ({"max_chain": 5}, {"keep_originals": 0}, {"effort": "silly"}, {"limit": 0}):
        with pytest.raises(ValueError, match=next(iter(options))):
            PackCheckpoints(**options)  # type: ignore[arg-type]


def test_checkpoints_of_accelerate(tmp_path: Path) -> None:
    accelerator = accelerate.Accelerator(cpu=True)
    model = torch.nn.Linear(200, 100)
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters()))
    states = {}
    with BackgroundPacker(PackedCheckpoints(tmp_path / "packed")) as packer:
        for number in range(3):
            accelerator.backward(model(torch.ones(4, 200)).square().sum())
            optimizer.step()
            folder = Path(accelerator.save_state(str(tmp_path / f"state-{number}")))
            states[folder.name] = content(folder)
            packer.submit(folder)
    assert not (tmp_path / "state-1").exists()
    accelerator.load_state(restore_checkpoint(tmp_path / "packed" / "state-1"))
    assert content(tmp_path / "state-1") == states["state-1"]


def test_the_example(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), "--folder", str(tmp_path), "--hidden", "32", "--json"],
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["identical"] is True
    assert 0 < result["chain_bytes"] < result["plain_bytes"]
    assert 0 < result["whole_bytes"] < result["plain_bytes"]
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize("package", ["transformers", "Lightning"])
def test_the_modules_name_the_package_that_is_missing(package: str) -> None:
    module = f"zstn.training.{package.lower()}"
    script = f"""if True:
        import sys
        for name in ("transformers", "lightning", "pytorch_lightning"):
            sys.modules[name] = None
        import {module}
    """
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert f"{module} needs {package}" in done.stderr, done.stderr


def test_files_of_a_single_checkpoint_are_models(tmp_path: Path) -> None:
    """A packed model is opened where it is."""
    make_trainer(tmp_path, PackCheckpoints(), steps=1).train()
    with zstn.open(tmp_path / "packed" / "checkpoint-1" / "model.safetensors.zstn") as model:
        assert len(model) > 5
