"""Evaluations that need more than the training."""

from contextlib import nullcontext

import torch
from torch import Tensor

from faulty import program
from faulty.models import Model, batches, cross_entropy


def _train(model: Model, optimizer: torch.optim.Optimizer) -> None:
    for ids in batches(6, batch=2):
        cross_entropy(model, ids).backward()
        optimizer.step()
        optimizer.zero_grad()


@program("An evaluation keeps what only a backward pass needs", "hszhao/semseg#60")
def evaluation_with_gradients(mended: bool) -> None:
    """An evaluation that is not under `no_grad`."""
    model = Model(layers=8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        _train(model, optimizer)
        model.eval()
        for ids in batches(4, batch=16):
            with torch.no_grad() if mended else nullcontext():
                float(model.hidden(ids).square().mean())
        model.train()


@program("Results are collected on the device", "facebookresearch/SlowFast#411")
def collected_results(mended: bool) -> None:
    """Results of an evaluation that are kept on the device until its end."""
    model = Model().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        _train(model, optimizer)
        found: list[Tensor] = []
        with torch.no_grad():
            for ids in batches(16, batch=2):
                results = model(ids)
                found.append(results.cpu() if mended else results)
        del found, results


@program(
    "An evaluation keeps what only a backward pass needs",
    "boschresearch/Continuous-Recurrent-Units#4",
)
def summed_losses(mended: bool) -> None:
    """Losses of an evaluation that are summed as tensors, with their graphs."""
    model = Model(layers=8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        _train(model, optimizer)
        total: Tensor | float = 0.0
        for ids in batches(8, batch=2):
            with torch.no_grad() if mended else nullcontext():
                total = total + model.hidden(ids).square().mean()
        float(total)
        del total


@program("A tensor grows by concatenation", "lotus-data/lotus#16")
def concatenated_results(mended: bool) -> None:
    """Results that are appended to a tensor with `cat`."""
    model = Model().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    count, batch = 16, 4
    for _ in range(2):
        _train(model, optimizer)
        with torch.no_grad():
            parts = [model(ids) for ids in batches(1, batch=batch)]
            found = parts[0]
            if mended:
                found = torch.empty(count * batch, *found.shape[1:], device="cuda")
            for number, ids in enumerate(batches(count - 1, batch=batch)):
                if mended:
                    found[(number + 1) * batch : (number + 2) * batch] = model(ids)
                else:
                    found = torch.cat([found, model(ids)])
        del found, parts
