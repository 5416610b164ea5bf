"""Two models that take turns, and free their gradients at the beginning of a step.

The gradients of one model live through the step of the other. So successive iterations begin with
different live blocks.
"""

import torch
from torch import nn

from loops import Setting
from loops.loop import Loop, adamw, zeros


class TwoModels(Loop):
    """Training of two feed-forward nets of different width and depth, one per iteration."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        shapes = setting.choose(((1024, 8), (1536, 10)), ((64, 2), (96, 3)))
        with torch.device("cuda"):
            self.models = [feed_forward(*shape) for shape in shapes]
        self.widths = [width for width, _ in shapes]
        self.optimizers = [adamw([model]) for model in self.models]

    def step(self, iteration: int) -> None:
        turn = iteration % 2
        samples = self.setting.choose(4096, 64)
        x = zeros(samples, self.widths[turn], kind=torch.float32)
        self.optimizers[turn].zero_grad(set_to_none=True)
        self.models[turn](x).square().mean().backward()
        self.optimizers[turn].step()


def feed_forward(width: int, depth: int) -> nn.Module:
    """Return layers that widen to four times the width, and narrow again."""
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)]
    return nn.Sequential(*layers)
