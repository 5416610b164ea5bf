"""Recomputation within a memory budget: which values to drop, and when to compute them again.

    model, plan = pgmo.recompute(model, batch, budget="8 GiB")

The package is callable. `backend` returns a backend for `torch.compile`. `largest` finds the
largest batch that fits on a card.

    calls       signatures of calls, refusals of models, state that a capture restores
    compiled    Dynamo's graphs of a step, a dry run, one plan for all graphs
    capture     operations and values of one joint graph, with their costs
    planners    choices of values to drop, from a graph and a budget, without PyTorch
    runtime     the planned step, offloading
"""

from pgmo.recompute import package as _package  # makes this module callable

__all__ = ["backend", "largest"]

del _package
