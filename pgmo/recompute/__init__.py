"""Recomputation under a budget of bytes: what to forget, and when to compute it again.

    model, plan = pgmo.recompute(model, batch, budget="8 GiB")

The package itself is the function, and has `forget`, which marks a region of a forward pass,
`backend` for `torch.compile`, and `largest`, which looks for the largest batch of a card.

    a model's call     apply, twin, dispatch, call, pending, randomness, budget,
                       outcome, explain, curve, step_profile
    a whole card       whole_card, largest
    what a call is given    the package calls: signature, refusals, and what a capture undoes
    its graph          capture, eager, grouping, region, dropout, costs, workspaces, meter
    what to forget     decide, divide, in_place; of `graph` alone and without PyTorch: schedule,
                       evaluator, planning, shapes, floor, chen, lower_sets, kusumoto, min_cut
    running it         rewrite, execute, absent, announce, stages; compiled for `torch.compile`
    without a graph    tape (`forget` by itself)
    PyTorch's insides  compat
"""

from pgmo.recompute import package as _package  # makes this module callable

__all__ = ["backend", "forget", "largest"]

del _package
