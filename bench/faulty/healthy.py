"""Programs that do nothing wrong."""

import torch

from faulty import program
from faulty.models import Model, batches, cross_entropy, mean_of_hidden


def _train(model: Model, count: int, batch: int = 4) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for ids in batches(count, batch=batch):
        mean_of_hidden(model, ids).backward()
        optimizer.step()
        optimizer.zero_grad()


@program("", "a plain training loop")
def plain_training(mended: bool) -> None:
    """Fixed shapes."""
    _train(Model(layers=6).cuda(), 12)


@program("", "an evaluation under no_grad")
def with_evaluation(mended: bool) -> None:
    """Evaluations between epochs."""
    model = Model().cuda()
    for _ in range(2):
        _train(model, 6)
        with torch.no_grad():
            for ids in batches(3, batch=8):
                float(cross_entropy(model, ids))


@program("", "a cache that fills up")
def cache_that_fills(mended: bool) -> None:
    """Batches that stay on the device, four of them."""
    model = Model().cuda()
    kept: list[torch.Tensor] = []
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for number, ids in enumerate(batches(16)):
        if number < 4:
            kept.append(ids)
        mean_of_hidden(model, kept[number % 4]).backward()
        optimizer.step()
        optimizer.zero_grad()


@program("", "accumulation of gradients")
def accumulation(mended: bool) -> None:
    """Four micro-batches a step."""
    model = Model().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for number, ids in enumerate(batches(24, batch=2)):
        mean_of_hidden(model, ids).backward()
        if number % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
