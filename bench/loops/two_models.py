"""Two models that take turns, gradients dropped at the beginning of a step.

The gradients of one live through the step of the other: what an iteration begins with is not what
the one before it began with.
"""

import torch
from torch import nn

from loops import Setting
from loops.loop import Loop, adamw, zeros


class TwoModels(Loop):
    """Feed-forward nets of two widths and depths; each iteration trains one of them."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        shapes = setting.choose(((1024, 8), (1536, 10)), ((64, 2), (96, 3)))
        with torch.device("cuda"):
            self.models = [feed_forward(*shape) for shape in shapes]
        self.widths = [width for width, _ in shapes]
        self.optimizers = [adamw([model]) for model in self.models]

    def step(self, iteration: int) -> None:
        """One model's turn."""
        turn = iteration % 2
        samples = self.setting.choose(4096, 64)
        x = zeros(samples, self.widths[turn], kind=torch.float32)
        self.optimizers[turn].zero_grad(set_to_none=True)
        self.models[turn](x).square().mean().backward()
        self.optimizers[turn].step()


def feed_forward(width: int, depth: int) -> nn.Module:
    """Layers that widen by four and narrow again."""
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)]
    return nn.Sequential(*layers)


LOOPS = {"two_models": TwoModels}
