"""Optimizer steps that need large temporaries."""

import torch

from faulty import program
from faulty.models import Model, batches, mean_of_hidden


@program("The optimizer's temporaries make the peak", "pytorch/pytorch#97712")
def foreach_adam(fixed: bool) -> None:
    """Step AdamW by foreach, whose temporaries are as large as all parameters."""
    model = Model(layers=32).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=not fixed)
    for ids in batches(6, batch=1, length=32):
        mean_of_hidden(model, ids).backward()
        optimizer.step()
        optimizer.zero_grad()
