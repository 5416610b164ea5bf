"""Training with a scheduler, and an evaluation after every fifth step."""

import sys

import torch
from torch import nn

from tests.same_bits import bits


def evaluate(model):
    model.eval()
    with torch.no_grad():
        for _ in range(3):
            model(torch.randn(20, 64))
    model.train()


def main():
    steps = int(sys.argv[1])
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for step in range(steps):
        inputs, labels = torch.randn(32, 64), torch.randint(0, 10, (32,))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        scheduler.step()
        print(loss.item().hex())
        if step % 5 == 4:
            evaluate(model)
    print(bits(model.state_dict().values()))


if __name__ == "__main__":
    main()
