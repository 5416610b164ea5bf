"""Optimizers that need large temporaries or much state."""

from collections.abc import Iterable

import torch
from torch.nn import functional

from faulty import program
from faulty.models import Model, batches, mean_of_hidden, train


@program("The optimizer's temporaries make the peak", "pytorch/pytorch#97712")
def foreach_adam(fixed: bool) -> None:
    """Step AdamW by foreach, whose temporaries are as large as all parameters."""
    model = Model(layers=32).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=not fixed)
    train(model, optimizer, batch=1, length=32)


_AT_ONCE = 1 << 18
"""Number of elements that a step updates at once, which limits its temporaries."""


class _EightBit:
    """Tensor with a byte per element, and a float32 scale per 256 elements."""

    def __init__(self, part: torch.Tensor) -> None:
        rows = (part.numel() + 255) // 256
        self.values = torch.zeros(rows, 256, dtype=torch.int8, device=part.device)
        self.scales = torch.zeros(rows, 1, device=part.device)

    def wide(self, count: int) -> torch.Tensor:
        """Return the first elements in float32."""
        return (self.values * self.scales).flatten()[:count]

    def store(self, wide: torch.Tensor) -> None:
        """Replace the elements."""
        rows = functional.pad(wide, (0, self.values.numel() - len(wide))).view(-1, 256)
        torch.amax(rows.abs(), 1, keepdim=True, out=self.scales).div_(127).clamp_(min=1e-12)
        self.values.copy_(rows.div_(self.scales).round_())


class _EightBitAdam:
    """Adam with 8-bit state, which needs no temporaries of whole parameters."""

    def __init__(self, parameters: Iterable[torch.Tensor]) -> None:
        self.parameters = list(parameters)
        self.state = [
            [(_EightBit(part), _EightBit(part)) for part in one.detach().flatten().split(_AT_ONCE)]
            for one in self.parameters
        ]

    @torch.no_grad()
    def step(self) -> None:
        """Update a part of a parameter at a time."""
        for one, states in zip(self.parameters, self.state, strict=True):
            assert one.grad is not None
            parts = (tensor.view(-1).split(_AT_ONCE) for tensor in (one, one.grad))
            for part, gradient, (first, second) in zip(*parts, states, strict=True):
                mean = first.wide(len(part)).lerp_(gradient, 0.1)
                square = second.wide(len(part)).mul_(0.99).addcmul_(gradient, gradient, value=0.01)
                first.store(mean)
                second.store(square)
                part.addcdiv_(mean, square.sqrt_().add_(1e-8), value=-1e-3)
            one.grad = None


@program("Much of the memory is optimizer state", "meta-pytorch/torchtune#389")
def state_in_float(fixed: bool) -> object:
    """Train float32 weights in mixed precision, with Adam's state in float32."""
    model = Model(layers=32).cuda()
    trained = [*model.embedding.parameters(), *model.blocks.parameters()]
    optimizer = torch.optim.AdamW(trained, fused=True)
    eight_bit = _EightBitAdam(trained) if fixed else None
    for ids in batches(6, batch=1, length=64):
        with torch.autocast("cuda", torch.bfloat16):
            loss = mean_of_hidden(model, ids)
        loss.backward()
        del loss
        if eight_bit is None:
            optimizer.step()
            optimizer.zero_grad()
        else:
            eight_bit.step()
    return optimizer, eight_bit
