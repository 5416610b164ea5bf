"""Batch sizes that a script plans by rehearsing itself."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from pgmo.rehearsal.environment import of_card
from tests.fakecuda.fit.scripts import card

BEGIN = """
import sys, torch
from torch import nn

def train(batch, steps=6, accumulate=1):
    model = nn.Sequential(nn.Linear(256, 4096), nn.GELU(), nn.Linear(4096, 256)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(steps):
        for _ in range(accumulate):
            model(torch.randn(batch, 512, 256).cuda()).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    print("trained at", batch, accumulate)
"""

OF_ACCELERATE = """
from pgmo.integrations.batch_size import find_executable_batch_size

@find_executable_batch_size(starting_batch_size=500)
def run(batch_size):
    print("tries", batch_size)
    train(batch_size)

run()
"""

OF_TRANSFORMERS = """
from types import SimpleNamespace
from pgmo.integrations.batch_size import plan_arguments

given = SimpleNamespace(per_device_train_batch_size=48, gradient_accumulation_steps=1)
plan_arguments(given)
train(given.per_device_train_batch_size, accumulate=given.gradient_accumulation_steps)
"""

OF_LIGHTNING = """
import lightning
from pgmo.integrations.lightning import PgmoBatchSize

class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.batch_size = 4
        self.network = nn.Sequential(nn.Linear(256, 4096), nn.GELU(), nn.Linear(4096, 256))

    def training_step(self, batch, _):
        return self.network(batch).square().mean()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())

    def train_dataloader(self):
        return torch.utils.data.DataLoader(torch.randn(400, 512, 256), self.batch_size)

module, callback = Module(), PgmoBatchSize(effective_batch=64)
trainer = lightning.Trainer(
    max_steps=6, callbacks=[callback], logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False, accelerator="gpu", devices=1,
)
trainer.fit(module)
print("trained at", module.batch_size, trainer.accumulate_grad_batches)
"""


def trained_at(folder: Path, code: str, mib: int) -> tuple[int, int]:
    """Return batch and accumulation with which the script trains on a card; it has to fit."""
    path = folder / "train.py"
    path.write_text(textwrap.dedent(BEGIN + code))
    done = subprocess.run(
        [sys.executable, str(path)],
        env={**os.environ, **of_card(card(mib), 1)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "OutOfMemoryError" not in done.stderr
    assert done.stdout.count("tries") < 2
    batch, steps = done.stdout.split()[-2:]
    return int(batch), int(steps)


@pytest.mark.slow
def test_as_accelerate_finds_it(tmp_path: Path) -> None:
    batch, _ = trained_at(tmp_path, OF_ACCELERATE, 340)
    assert batch > 4
    with pytest.raises(AssertionError, match="OutOfMemoryError"):
        trained_at(tmp_path, f"train({batch + 1})", 340)


@pytest.mark.slow
def test_for_the_trainer_of_transformers(tmp_path: Path) -> None:
    batch, steps = trained_at(tmp_path, OF_TRANSFORMERS, 300)
    assert batch * steps == 48
    assert batch < 48


@pytest.mark.slow
def test_as_lightnings_tuner_finds_it(tmp_path: Path) -> None:
    pytest.importorskip("lightning")
    batch, steps = trained_at(tmp_path, OF_LIGHTNING, 300)
    assert batch * steps == 64
    assert 1 < batch < 64
