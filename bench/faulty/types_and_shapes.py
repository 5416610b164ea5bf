"""Intermediate results that are larger than they need to be."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from faulty import program
from faulty.models import step


@program("A broadcast that is summed at once", "Maghoumi/pytorch-softdtw-cuda#23")
def pairwise_differences(fixed: bool) -> None:
    """Compute the distances of all pairs of points from a broadcast difference."""
    net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64)).cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(8):
        points = net(torch.ones(1024, 64, device="cuda"))
        if fixed:
            distances = torch.cdist(points, points).square()
        else:
            distances = (points[:, None] - points[None]).square().sum(-1)
        step(optimizer, distances.mean())


class _Norm(nn.Module):
    """RMS norm over the last dimension, computed in float32."""

    def __init__(self, width: int, fixed: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.fixed = fixed

    def forward(self, x: Tensor) -> Tensor:
        if self.fixed:
            return functional.rms_norm(x, self.weight.shape, self.weight)
        wide = x.float()
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
        return self.weight * (wide * scale).to(x.dtype)


@program("Copies in a wider type are kept", "open-lm-engine/lm-engine#228")
def norm_in_float(fixed: bool) -> None:
    """Normalize bfloat16 tensors in float32, whose intermediates stay for the backward pass."""
    layers = [nn.Sequential(_Norm(512, fixed), nn.Linear(512, 512)) for _ in range(8)]
    net = nn.Sequential(*layers).cuda().bfloat16()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(8):
        step(
            optimizer,
            net(torch.ones(8192, 512, device="cuda", dtype=torch.bfloat16)).square().mean(),
        )
