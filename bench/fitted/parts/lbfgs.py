"""Training with L-BFGS: it keeps gradients, and calls its closure several times per step."""

import torch
from network import Network, parser
from torch import Tensor

given = parser.parse_args()
model = Network(small=given.small).cuda()
optimizer = torch.optim.LBFGS(model.parameters(), history_size=6, max_iter=2)


def closure() -> Tensor:
    """Compute gradients and return the loss."""
    optimizer.zero_grad()
    loss = model.loss(given.batch_size)
    loss.backward()
    return loss


for _ in range(given.steps):
    optimizer.step(closure)
