"""DeepSpeed on one rank of eight that are not there: `pgmo run deepspeed_rank.py STAGE`."""

import sys

import deepspeed
import torch
import torch.distributed as dist
from torch import nn

STEPS, WIDTH = 14, 512

dist.init_process_group("fake", rank=0, world_size=8)
blocks = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(6)]
model = nn.Sequential(*blocks)
engine, *_ = deepspeed.initialize(
    model=model,
    model_parameters=model.parameters(),
    config={
        "train_micro_batch_size_per_gpu": 16,
        "zero_optimization": {"stage": int(sys.argv[1]), "sub_group_size": 500_000},
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
    },
)
for _ in range(STEPS):
    loss = engine(torch.randn(16, WIDTH, device="cuda")).square().mean()
    engine.backward(loss)
    engine.step()
