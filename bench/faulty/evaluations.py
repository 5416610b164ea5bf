"""Evaluations that need more memory than the training."""

from contextlib import nullcontext

import torch
from torch import Tensor

from faulty import program
from faulty.models import Model, batches, cross_entropy, train


@program("An evaluation keeps what only a backward pass needs", "hszhao/semseg#60")
def evaluation_with_gradients(fixed: bool) -> None:
    """Evaluate without `no_grad`."""
    model = Model(layers=8).cuda()
    for _ in range(2):
        train(model, batch=2, loss=cross_entropy)
        model.eval()
        for ids in batches(4, batch=16):
            with torch.no_grad() if fixed else nullcontext():
                float(model.hidden(ids).square().mean())
        model.train()


@program("Results are collected on the device", "facebookresearch/SlowFast#411")
def collected_results(fixed: bool) -> None:
    """Keep the results of an evaluation on the device until its end."""
    model = Model().cuda()
    for _ in range(2):
        train(model, batch=2, loss=cross_entropy)
        found: list[Tensor] = []
        with torch.no_grad():
            for ids in batches(16, batch=2):
                results = model(ids)
                found.append(results.cpu() if fixed else results)
        del found, results


@program(
    "An evaluation keeps what only a backward pass needs",
    "boschresearch/Continuous-Recurrent-Units#4",
)
def summed_losses(fixed: bool) -> None:
    """Sum the losses of an evaluation as tensors, which keeps their graphs."""
    model = Model(layers=8).cuda()
    for _ in range(2):
        train(model, batch=2, loss=cross_entropy)
        total: Tensor | float = 0.0
        for ids in batches(8, batch=2):
            with torch.no_grad() if fixed else nullcontext():
                total = total + model.hidden(ids).square().mean()
        float(total)
        del total


@program("A tensor grows by concatenation", "lotus-data/lotus#16")
def concatenated_results(fixed: bool) -> None:
    """Append each result to a tensor by `cat`."""
    model = Model().cuda()
    count, batch = 16, 4
    for _ in range(2):
        train(model, batch=2, loss=cross_entropy)
        with torch.no_grad():
            parts = [model(ids) for ids in batches(1, batch=batch)]
            found = parts[0]
            if fixed:
                found = torch.empty(count * batch, *found.shape[1:], device="cuda")
            for number, ids in enumerate(batches(count - 1, batch=batch)):
                if fixed:
                    found[(number + 1) * batch : (number + 2) * batch] = model(ids)
                else:
                    found = torch.cat([found, model(ids)])
        del found, parts
