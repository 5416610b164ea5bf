"""Loop whose iterations all differ, so that an arena saves nothing."""

import random
import sys

import torch
from torch import nn


def main():
    steps = int(sys.argv[1])
    torch.manual_seed(0)
    chance = random.Random(0)
    model = nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        value = torch.randn(64, 64)
        for _ in range(chance.randint(3, 30)):
            kind, size = chance.randrange(4), chance.randint(1, 300)
            if kind == 0:
                value = value + torch.ones(size * size).mean()
            elif kind == 1:
                value = value * torch.ones(size, 64).mean(0)
            elif kind == 2:
                value = torch.cat([value, value[:size]])
            else:
                value = value[: max(1, len(value) - size)].clone()
        optimizer.zero_grad()
        loss = model(value).square().mean()
        loss.backward()
        optimizer.step()
        print(loss.item().hex())


if __name__ == "__main__":
    main()
