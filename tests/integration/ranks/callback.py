"""Rank with a loop of Lightning or transformers: `... FOLDER lightning|transformers [NAME]`

Trains over gloo without the callback, with it, and from its plans. Prints one JSON object.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from tests.integration.ranks.rank import counters_of, join, leave

STEPS = 14


def network() -> nn.Sequential:
    """Return a network with the same weights on all ranks."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 8))


def lightning(strategy: str, callback: Any) -> list[float]:
    """Train with one of Lightning's strategies, and return the losses."""
    import lightning
    from torch.utils.data import DataLoader, TensorDataset

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.network = network()
            self.losses: list[float] = []

        def configure_model(self) -> None:
            if strategy == "ModelParallelStrategy":
                from torch.distributed.fsdp import fully_shard

                fully_shard(self.network, mesh=self.device_mesh["data_parallel"])

        def training_step(self, batch: Any, _number: int) -> torch.Tensor:
            loss: torch.Tensor = self.network(batch[0]).square().mean()
            self.losses.append(loss.item())
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters(), lr=1e-3)

    data = torch.randn(32 * STEPS, 64, generator=torch.Generator().manual_seed(0))
    sizes = {"data_parallel_size": dist.get_world_size(), "tensor_parallel_size": 1}
    made = getattr(lightning.pytorch.strategies, strategy)(
        process_group_backend="gloo", **(sizes if strategy == "ModelParallelStrategy" else {})
    )
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=dist.get_world_size(),
        strategy=made,
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[callback] if callback is not None else [],
    )
    module = Module()
    trainer.fit(module, DataLoader(TensorDataset(data), batch_size=16))
    return module.losses


def transformers(_name: str, callback: Any) -> list[float]:
    """Train with a Trainer, which uses DDP with several processes, and return the losses."""
    import transformers

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network()

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"loss": self.network(x).square().mean()}

    data = torch.randn(32 * STEPS, 64, generator=torch.Generator().manual_seed(0))
    arguments = transformers.TrainingArguments(
        output_dir=f"{sys.argv[1]}/out",
        max_steps=STEPS,
        per_device_train_batch_size=16,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        ddp_backend="gloo",
    )
    trainer = transformers.Trainer(
        Model(),
        arguments,
        train_dataset=[{"x": row} for row in data],
        callbacks=[callback] if callback is not None else [],
    )
    trainer.train()
    return [one["loss"] for one in trainer.state.log_history if "loss" in one]


def main(folder: Path, package: str, name: str) -> None:
    """Train three times, and print the results."""
    rank, size = os.environ["RANK"], os.environ["WORLD_SIZE"]
    launcher = {"LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": size, "GROUP_RANK": "0"}
    os.environ.update(launcher, TORCHELASTIC_RUN_ID="job", MASTER_ADDR="localhost")
    os.environ["MASTER_PORT"] = "29500"  # unused, because the process group exists already
    join()
    if package == "lightning":
        from pgmo.integrations.lightning import PgmoCallback as Callback
    else:
        from pgmo.integrations.transformers import PgmoTrainerCallback as Callback
    train = globals()[package]
    options = {"save": folder, "model_name": "job"}
    callbacks = [Callback(**options), Callback(plan=folder, **options)]
    losses = [train(name, one) for one in (None, *callbacks)]
    results = {"losses": losses, "sessions": [counters_of(one.session) for one in callbacks]}
    if dist.is_initialized():
        leave()
    print(json.dumps(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
