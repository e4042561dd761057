"""Packed checkpoints of Lightning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

lightning = pytest.importorskip("pytorch_lightning")

from zstn.training import PackedCheckpoints  # noqa: E402
from zstn.training.lightning import PackedCheckpointIO  # noqa: E402


class Model(lightning.LightningModule):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(100, 100)

    def training_step(self, batch: torch.Tensor, _: int) -> torch.Tensor:
        return (self.layer(batch) - 1).square().mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters())


def train(folder: Path, steps: int, resume: Path | None = None, **options: Any) -> Model:
    torch.manual_seed(0)
    data = torch.utils.data.DataLoader(torch.ones(64, 100), batch_size=4)
    saving = lightning.callbacks.ModelCheckpoint(
        folder, every_n_train_steps=2, filename="{step}", **{"save_top_k": -1, **options}
    )
    trainer = lightning.Trainer(
        max_steps=steps, callbacks=[saving], plugins=[PackedCheckpointIO()], accelerator="cpu",
        logger=False, enable_progress_bar=False, enable_model_summary=False,
        default_root_dir=folder,
    )  # fmt: skip
    model = Model()
    trainer.fit(model, data, ckpt_path=resume)
    return model


@pytest.mark.filterwarnings("ignore")
def test_a_run_is_resumed_from_a_checkpoint_that_exists_only_packed(tmp_path: Path) -> None:
    whole = train(tmp_path, 8)
    assert [path.name for path in tmp_path.glob("*.ckpt")] == ["step=8.ckpt"]
    store = PackedCheckpoints(tmp_path / "packed")
    assert store.names() == [f"step={step}.ckpt" for step in (2, 4, 6, 8)]
    assert len(store.get("step=4.ckpt").bases) == 1
    resumed = train(tmp_path, 8, tmp_path / "step=4.ckpt")
    for name, value in whole.state_dict().items():
        assert torch.equal(resumed.state_dict()[name], value)
    assert not (tmp_path / "step=4.ckpt").exists()


@pytest.mark.filterwarnings("ignore")
def test_removed_checkpoints_are_removed_or_stay_as_bases(tmp_path: Path) -> None:
    train(tmp_path, 14, save_top_k=1)
    assert [path.name for path in tmp_path.glob("*.ckpt")] == ["step=14.ckpt"]
    names = PackedCheckpoints(tmp_path / "packed").names()
    assert names[-1] == "step=14.ckpt" and len(names) <= 5
