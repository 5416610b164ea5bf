"""Steps of optimizers."""

import torch

from faulty import program
from faulty.models import Model, batches, mean_of_hidden


@program("The optimizer's temporaries make the peak", "pytorch/pytorch#97712")
def foreach_adam(mended: bool) -> None:
    """Adam for all parameters at once, with temporaries as large as the parameters."""
    model = Model(layers=32).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=not mended)
    for ids in batches(6, batch=1, length=32):
        mean_of_hidden(model, ids).backward()
        optimizer.step()
        optimizer.zero_grad()
