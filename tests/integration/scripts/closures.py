"""Training with LBFGS, whose steps evaluate the model a varying number of times."""

import hashlib
import sys

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
inputs, targets = torch.randn(64, 8), torch.randn(64, 1)


def closure():
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    return loss


for _ in range(int(sys.argv[1])):
    print(optimizer.step(closure).item().hex())
total = hashlib.sha256()
for value in model.state_dict().values():
    total.update(value.numpy().tobytes())
print(total.hexdigest())
