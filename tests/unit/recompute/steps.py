"""Bitwise comparison of steps, and a planner that ends soon."""

import random

import torch

from pgmo.errors import BudgetError
from pgmo.recompute.planners.planning import propose, rank


def proposed(graph, budget):
    """Return the best choice that is proposed to the search."""
    limit = None if budget == "min" else budget
    best = min(propose(graph), key=lambda one: rank(one, limit))
    if limit is not None and best.peak > limit:
        raise BudgetError(f"nothing is within {limit}")
    return best


def step(model, *inputs, seed=0):
    """Everything that a step computes: the loss, gradients, buffers, and random numbers to come."""
    model.zero_grad(set_to_none=True)
    torch.manual_seed(seed)
    random.seed(seed)
    results = model(*inputs)  # held until the backward pass is over, as programs do
    loss = results["loss"] if isinstance(results, dict) else results
    loss = loss[0] if isinstance(loss, tuple) else loss
    loss.sum().backward()
    return [
        *(loss.detach(), *(one.grad for one in model.parameters())),
        *(one.clone() for one in model.buffers()),
        *(torch.rand(2), torch.tensor(random.random())),
    ]


def same(ours, theirs):
    """Return whether all bits agree, and None agrees with None."""
    return all(
        one is other if one is None or other is None else torch.equal(one, other)
        for one, other in zip(ours, theirs, strict=True)
    )
