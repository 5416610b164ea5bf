"""Recomputation under a budget of bytes: what to forget, and when to compute it again.

    model, plan = pgmo.recompute(model, batch, budget="8 GiB")

The package itself is the function, and has `forget`, which marks a region of a forward pass,
`backend` for `torch.compile`, and `segments`, which needs no more than public names of PyTorch.
`graph` and the planners know nothing of PyTorch.
"""

import sys

from pgmo.recompute.package import Package

sys.modules[__name__].__class__ = Package
