"""Trains a small model with packed checkpoints, resumes from one of them, and compares the
result with the uninterrupted run:

    pip install zstn torch transformers accelerate
    python train_packed.py
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import Trainer, TrainingArguments

from zstn.training import PackedCheckpoints
from zstn.training.transformers import PackCheckpoints

CHECKPOINTS = 5
VOCABULARY = 512


class Sequences(torch.utils.data.Dataset):  # type: ignore[type-arg]
    """Sequences with a simple rule, so that the model learns something."""

    def __len__(self) -> int:
        return 4096

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        values = (torch.arange(64) * (index % 97 + 1) + index) % VOCABULARY
        return {"input_ids": values, "labels": values}


def make_trainer(out: Path, arguments: argparse.Namespace, *callbacks: Any) -> Trainer:
    transformers.set_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=arguments.hidden,
        intermediate_size=arguments.hidden * 4,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
    )
    options = TrainingArguments(
        output_dir=str(out),
        max_steps=CHECKPOINTS * arguments.steps,
        save_steps=arguments.steps,
        per_device_train_batch_size=8,
        learning_rate=arguments.learning_rate,
        lr_scheduler_type="constant",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        logging_strategy="no",
    )
    model = transformers.LlamaForCausalLM(config)
    return Trainer(model, options, train_dataset=Sequences(), callbacks=list(callbacks))


def final_state(trainer: Trainer) -> dict[str, bytes]:
    """Returns the bytes of all weights, and of the optimiser's state."""
    assert trainer.model is not None and trainer.optimizer is not None
    found = {name: value.numpy().tobytes() for name, value in trainer.model.state_dict().items()}
    for number, entry in trainer.optimizer.state_dict()["state"].items():
        found |= {f"{number}.{key}": value.numpy().tobytes() for key, value in entry.items()}
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0] + ".")
    parser.add_argument("--folder", type=Path, help="for the checkpoints; a temporary one by default")
    parser.add_argument("--hidden", type=int, default=256, help="width of the model")
    parser.add_argument("--steps", type=int, default=4, help="steps between two checkpoints")
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        # All originals stay here, to measure them.
        packing = PackCheckpoints(folder / "chain", keep_originals=None)
        started = time.perf_counter()
        whole_run = make_trainer(folder / "run", arguments, packing)
        whole_run.train()
        seconds = time.perf_counter() - started
        chain = PackedCheckpoints(folder / "chain")
        whole = PackedCheckpoints(folder / "whole", max_chain=0)
        rows = []
        for name in chain.names():
            alone, linked = whole.pack(folder / "run" / name), chain.get(name)
            rows.append((name, alone.original_bytes, alone.packed_bytes, linked.packed_bytes))
        # The checkpoint in the middle of the chain, restored for another run.
        middle = chain.names()[CHECKPOINTS // 2]
        restored = chain.restore(middle, folder / "resumed" / middle)
        resumed = make_trainer(folder / "resumed", arguments)
        resumed.train(resume_from_checkpoint=str(restored))
        is_identical = final_state(resumed) == final_state(whole_run)
    sums = [sum(row[column] for row in rows) for column in (1, 2, 3)]
    if arguments.json:
        keys = ("plain_bytes", "whole_bytes", "chain_bytes")
        print(json.dumps({**dict(zip(keys, sums, strict=True)), "identical": is_identical}))
    else:
        print(f"{'':16}{'plain':>14}{'packed':>14}{'as a chain':>14}")
        for name, *sizes in [*rows, ("together", *sums)]:
            print(f"{name:16}" + "".join(f"{size:14,}" for size in sizes))
        print(f"trained and packed in {seconds:.1f} s")
        same = "is bit-identical to" if is_identical else "DIFFERS from"
        print(f"the run resumed from the packed {middle} {same} the uninterrupted one")
    return 0 if is_identical else 1


if __name__ == "__main__":
    sys.exit(main())
