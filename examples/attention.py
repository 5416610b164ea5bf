"""Transformer whose attention keeps the scores of each pair of positions.

pgmo run --save plans attention.py && pgmo stats plans/attention.pgmoprof
"""

import torch
from torch import Tensor, nn


class Attention(nn.Module):
    """Attention that is computed by separate operators, as in publications."""

    def __init__(self) -> None:
        super().__init__()
        self.joint = nn.Linear(32, 96)

    def forward(self, x: Tensor) -> Tensor:
        """Return hidden states, shape (batch, length, width)."""
        query, key, value = self.joint(x).chunk(3, -1)
        scores = query @ key.transpose(-1, -2) / 32**0.5
        return x + scores.softmax(-1) @ value


device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Sequential(*(Attention() for _ in range(4))).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(20):
    model(torch.randn(4, 256, 32, device=device)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
