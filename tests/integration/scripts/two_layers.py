"""Training of two layers in twelve steps, with variants by arguments.

sgd      without momentum, not Adam         fresh   each batch is made in the step
zeroed   gradients become zeros, not None   loader  batches of a DataLoader, and an evaluation
"""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tests.same_bits import bits

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 10))
if "sgd" in sys.argv:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
else:
    optimizer = torch.optim.Adam(model.parameters())
inputs, targets = torch.randn(3 * 256, 128), torch.randint(0, 10, (3 * 256,))


def batches():
    while True:
        if "loader" in sys.argv:
            yield from DataLoader(TensorDataset(inputs, targets), 256, shuffle=True)
        elif "fresh" in sys.argv:
            yield torch.randn(256, 128), torch.randint(0, 10, (256,))
        else:
            yield from zip(inputs.split(256), targets.split(256), strict=True)


for step, (given, wanted) in zip(range(12), batches(), strict=False):
    optimizer.zero_grad(set_to_none="zeroed" not in sys.argv)
    loss = nn.functional.cross_entropy(model(given), wanted)
    loss.backward()
    optimizer.step()
    print(loss.item().hex())
    if "loader" in sys.argv and step % 3 == 2:
        model.eval()
        with torch.no_grad():
            print(model(inputs).mean().item().hex())
        model.train()
print(bits(model.state_dict().values()))
