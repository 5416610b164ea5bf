"""Training with marked iterations, which prints its losses and the digest of its weights."""

import hashlib
import sys

import torch

import pgmo

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
weights = b"".join(one.detach().numpy().tobytes() for one in model.parameters())
print(hashlib.sha256(weights).hexdigest())
