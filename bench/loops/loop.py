"""Base class of loops, and functions that they share."""

import random
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn, optim

from loops import Setting

torch.backends.cudnn.enabled = False
torch.backends.cuda.enable_cudnn_sdp(False)

BFLOAT16 = torch.bfloat16


class Loop:
    """Training or inference loop; subclasses build their models in `__init__`.

    Attributes:
        opens_session: whether `run` itself opens pgmo's session, as a framework's callback does.
        session: the session that `run` has opened; None before.
    """

    opens_session = False
    session: Any = None

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.chance = random.Random(setting.seed)

    def step(self, iteration: int) -> None:
        """Run one iteration. Subclasses that replace `run` need no step."""

    def run(self, iterations: int, ended: Callable[[], None], *, session: bool = False) -> None:
        """Run the loop.

        Args:
            iterations: number of iterations.
            ended: called after each iteration.
            session: whether pgmo serves the loop. Only loops with `opens_session` use it.
        """
        for iteration in range(iterations):
            self.step(iteration)
            ended()


def zeros(*shape: int, kind: torch.dtype = torch.long) -> Tensor:
    """Return zeros on the device, as tokens, labels or pictures."""
    return torch.zeros(*shape, dtype=kind, device="cuda")


def loaded(*shape: int, kind: torch.dtype = torch.long) -> Tensor:
    """Return zeros that were copied from pinned memory, as a data loader does."""
    return torch.zeros(*shape, dtype=kind).pin_memory().to("cuda", non_blocking=True)


def adamw(modules: Iterable[nn.Module], *, fused: bool = False) -> optim.Optimizer:
    """Return AdamW over the modules' parameters that require gradients."""
    trained = [one for module in modules for one in module.parameters() if one.requires_grad]
    return optim.AdamW(trained, lr=1e-4, fused=fused)


def longest_of_batch(
    chance: random.Random, batch: int, longest: int, *, median: float = 200.0, spread: float = 0.6
) -> int:
    """Draw lognormal lengths for a batch, and return its padded length in tokens."""
    drawn = (int(median * chance.lognormvariate(0.0, spread)) for _ in range(batch))
    return min(longest, max(8, *drawn))
