"""What loops have in common."""

import random
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn, optim

from loops import Setting

# The stub runtime has cuBLAS, but no cuDNN.
torch.backends.cudnn.enabled = False
torch.backends.cuda.enable_cudnn_sdp(False)

BFLOAT16 = torch.bfloat16


class Loop:
    """A loop of one program; subclasses build their models in `__init__`.

    Attributes:
        opens_session: whether `run` opens pgmo's session itself, as a framework's callback does.
        session: that session, once it is open.
    """

    opens_session = False
    session: Any = None

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.chance = random.Random(setting.seed)

    def step(self, iteration: int) -> None:
        """One iteration; nothing where `run` has its own."""

    def run(self, iterations: int, ended: Callable[[], None], *, session: bool = False) -> None:
        """Runs the loop.

        Args:
            iterations: how many.
            ended: called after each.
            session: whether pgmo serves it; matters where `opens_session`.
        """
        for iteration in range(iterations):
            self.step(iteration)
            ended()


def zeros(*shape: int, kind: torch.dtype = torch.long) -> Tensor:
    """Tokens, labels, pictures: on the device."""
    return torch.zeros(*shape, dtype=kind, device="cuda")


def loaded(*shape: int, kind: torch.dtype = torch.long) -> Tensor:
    """The same as a loader gives it: made in pinned memory and copied."""
    return torch.zeros(*shape, dtype=kind).pin_memory().to("cuda", non_blocking=True)


def adamw(modules: Iterable[nn.Module], *, fused: bool = False) -> optim.Optimizer:
    """AdamW over what is trained of the modules."""
    trained = [one for module in modules for one in module.parameters() if one.requires_grad]
    return optim.AdamW(trained, lr=1e-4, fused=fused)


def longest_of_batch(
    chance: random.Random, batch: int, longest: int, *, median: float = 200.0, spread: float = 0.6
) -> int:
    """What padding makes of a batch whose lengths are distributed lognormally, in tokens."""
    drawn = (int(median * chance.lognormvariate(0.0, spread)) for _ in range(batch))
    return min(longest, max(8, *drawn))
