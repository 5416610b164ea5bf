"""Bitwise comparison of steps, planners without a search, a small card and a network."""

import random

import torch
from torch import nn

from pgmo.cards import Card
from pgmo.errors import BudgetError
from pgmo.recompute.card_budget import CONTEXT
from pgmo.recompute.planners.evaluator import Choice
from pgmo.recompute.planners.offload.transfers import Transfers
from pgmo.recompute.planners.planning import propose, rank
from pgmo.recompute.planners.schedule import simulate
from tests.unit.recompute.reruns import random_reruns


def proposed(graph, budget):
    """Return the best of the choices with which the search would begin."""
    limit = None if budget == "min" else budget
    best = min(propose(graph), key=lambda one: rank(one, limit))
    if limit is not None and best.peak > limit:
        raise BudgetError(f"nothing is within {limit}")
    return best


def dice(seed, share, *, offloads=True, needed=lambda _graph, reruns, _away: reruns):
    """Return a planner with random reruns and offloads, as far as `needed` keeps them."""

    def plan(graph, _budget):
        die = random.Random(seed)
        transfers = Transfers.of(graph, 10.0 ** die.randint(6, 12)) if offloads else None
        able = filter(transfers.can_offload, range(graph.forward)) if offloads else ()
        away = frozenset(one for one in able if die.random() < 0.6)
        reruns = needed(graph, random_reruns(graph, die, share, away, transfers), away)
        schedule = simulate(graph, (), reruns, away, transfers)
        assert bool(schedule.offloaded) is offloads
        return Choice(schedule.recomputed, schedule.peak, 0.0, "dice", reruns, away, transfers)

    return plan


def card(room):
    """Return a card that has `room` bytes left beside CUDA's context."""
    size = int((CONTEXT + room) / 0.99)
    return Card("a small one", size, size, (8, 0), 1)


def net():
    """Return six linear layers with activations; equal calls give equal weights."""
    torch.manual_seed(0)
    layers = [layer for _ in range(6) for layer in (nn.Linear(64, 64), nn.Tanh())]
    return nn.Sequential(*layers)


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
