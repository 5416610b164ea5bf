"""Training with marked iterations, which prints its losses and the digest of its weights."""

import sys

import torch

import pgmo
from tests.same_bits import bits

torch.manual_seed(int(sys.argv[1]))
model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(4)])
optimizer = torch.optim.Adam(model.parameters())
with pgmo.optimize(device="cpu") as session:
    for _ in range(12):
        with session.iteration():
            loss = model(torch.randn(128, 64)).pow(2).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        print(float(loss).hex())
print(bits(model.parameters()))
