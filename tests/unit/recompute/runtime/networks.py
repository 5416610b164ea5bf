"""Networks for tests of recomputation and of values that wait on the host."""

import torch
from torch import nn
from torch.nn import functional


class Skips(nn.Module):
    """A network of convolutions, batch norm, dropout and a tuple of views, with a skip over all."""

    def __init__(self, turned=False):
        super().__init__()
        self.turned = turned
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 8, 3, padding=1)
        self.last = nn.Conv2d(12, 4, 3, padding=1)

    def forward(self, x):
        skip = functional.silu(self.norm(self.first(x)))
        y = functional.dropout(torch.tanh(self.second(skip)), 0.25)
        left, right = functional.gelu(y).chunk(2, 1)
        joined = torch.cat([left * right.sigmoid(), skip], 1)
        return self.last(joined.transpose(2, 3) if self.turned else joined).square().mean()
