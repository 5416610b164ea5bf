"""Training that copies weights and optimizer state on the card in the middle of the run."""

import copy
from typing import Any

import torch
from network import Network, parser, train

given = parser.parse_args()
model = Network(small=given.small).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
best: list[Any] = []


def keep(step: int) -> None:
    """Copy weights and optimizer state, once."""
    if step == given.steps // 2:
        best.append(copy.deepcopy((model.state_dict(), optimizer.state_dict())))


train(given, model, optimizer, after=keep)
