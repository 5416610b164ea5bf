"""Bitwise comparison of steps, and a planner without a search."""

import random

import torch

from pgmo.errors import BudgetError
from pgmo.recompute.planners.planning import propose, rank


def proposed(graph, budget):
    """Return the best of the choices with which the search would begin."""
    limit = None if budget == "min" else budget
    best = min(propose(graph), key=lambda one: rank(one, limit))
    if limit is not None and best.peak > limit:
        raise BudgetError(f"nothing is within {limit}")
    return best


def step(model, *inputs, seed=0):
    """Return a step's loss, gradients and buffers, and the random numbers that follow it."""
    model.zero_grad(set_to_none=True)
    torch.manual_seed(seed)
    random.seed(seed)
    results = model(*inputs)  # a program holds them during the backward pass
    loss = results["loss"] if isinstance(results, dict) else results
    loss = loss[0] if isinstance(loss, tuple) else loss
    loss.sum().backward()
    return [
        *(loss.detach(), *(one.grad for one in model.parameters())),
        *(one.clone() for one in model.buffers()),
        *(torch.rand(2), torch.tensor(random.random())),
    ]


def same(ours, theirs):
    """Return whether all tensors are equal; None equals only None."""
    return all(
        one is other if one is None or other is None else torch.equal(one, other)
        for one, other in zip(ours, theirs, strict=True)
    )
