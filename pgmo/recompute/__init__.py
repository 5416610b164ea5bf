"""Recomputation under a budget of bytes: what to forget, and when to compute it again.

    model, plan = pgmo.recompute(model, batch, budget="8 GiB")

The package itself is the function, and has `forget`, which marks a region of a forward pass,
`backend` for `torch.compile`, and `segments`, which needs no more than public names of PyTorch.
`graph` and the planners know nothing of PyTorch.
"""

from pgmo.recompute import package as _package  # makes this module callable

__all__ = ["backend", "forget", "segments"]

del _package
