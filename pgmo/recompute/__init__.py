"""Recomputation under a budget of bytes: which values to drop, and when to compute them again.

    model, plan = pgmo.recompute(model, batch, budget="8 GiB")

The package itself is the function. It has `backend` for `torch.compile`, and `largest`, which
searches for the largest batch of a card.

    public functions   apply, outcome, explain, curve, step_profile; whole_card, largest_batch
    a call             calls: its signature, what is refused, and what a capture restores
    its graphs         compiled: Dynamo's capture, a dry run, one plan for all graphs of a step
    one graph          capture: operations and values of a joint graph, with their costs
    what to drop       planners, on a graph alone and without PyTorch
    running it         runtime: the planned step, offload
    private functions  of PyTorch: capture/compat
"""

from pgmo.recompute import package as _package  # makes this module callable

__all__ = ["backend", "largest"]

del _package
