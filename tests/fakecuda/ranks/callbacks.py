"""Lightning and transformers with FSDP, on one rank of a fake world of eight.

    python -m tests.fakecuda.ranks.callbacks lightning|fsdp1|fsdp2

It needs the environment variables of torchrun, and prints the figures of the callback's session as
a JSON object.
"""

import json
import sys
import tempfile
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

STEPS, WIDTH = 14, 512


def lightning(_kind: str) -> Any:
    """Train with FSDPStrategy, and return the callback."""
    import lightning
    from lightning.pytorch.strategies import FSDPStrategy
    from torch.utils.data import DataLoader, TensorDataset

    from pgmo.integrations.lightning import PgmoCallback

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.network = nn.Sequential(*[nn.Linear(WIDTH, WIDTH) for _ in range(6)])

        def training_step(self, batch: Any, _number: int) -> torch.Tensor:
            loss: torch.Tensor = self.network(batch[0]).square().mean()
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters(), lr=1e-3)

    callback = PgmoCallback()
    trainer = lightning.Trainer(
        accelerator="cuda",
        devices=1,
        num_nodes=dist.get_world_size(),
        strategy=FSDPStrategy(auto_wrap_policy={nn.Linear}),
        max_epochs=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
        callbacks=[callback],
    )
    trainer.fit(Module(), DataLoader(TensorDataset(torch.randn(64 * STEPS, WIDTH)), batch_size=64))
    return callback


def transformers(kind: str) -> Any:
    """Train with a Trainer's FSDP of either version, and return the callback."""
    import transformers

    from pgmo.integrations.transformers import PgmoTrainerCallback

    config = transformers.GPT2Config(
        n_layer=2, n_head=4, n_embd=256, vocab_size=512, n_positions=128, bos_token_id=0
    )
    config.eos_token_id = 0
    # One epoch, since each step that ends an epoch has further requests.
    tokens = torch.randint(0, 512, (8 * dist.get_world_size() * STEPS, 128))
    callback = PgmoTrainerCallback()
    arguments = transformers.TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        max_steps=STEPS,
        per_device_train_batch_size=8,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        fsdp=True,
        fsdp_config={
            "version": int(kind[-1]),
            "fsdp_version": int(kind[-1]),
            "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "transformer_layer_cls_to_wrap": ["GPT2Block"],
        },
    )
    transformers.Trainer(
        transformers.GPT2LMHeadModel(config),
        arguments,
        train_dataset=[{"input_ids": row, "labels": row} for row in tokens],
        callbacks=[callback],
    ).train()
    return callback


def main(kind: str) -> None:
    """Train, and print the figures."""
    dist.init_process_group("fake", rank=0, world_size=8)
    torch.backends.cuda.enable_cudnn_sdp(False)
    session = (lightning if kind == "lightning" else transformers)(kind).session
    print(
        json.dumps(
            {
                "device": session.device,
                "phases": [str(one.phase) for one in session.history],
                "iterations": session.counted().iterations,
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1])
