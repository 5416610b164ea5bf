"""Training loops: the name of a loop, and the number of steps, are the arguments.

accumulation   clipped gradients of three micro-batches per step
closures       LBFGS, whose steps evaluate the model a varying number of times
scaled         gradient scaling, which skips steps with infinite gradients
"""

import sys

import torch
from torch import nn

from tests.same_bits import bits


def accumulation(steps):
    model, head = nn.LSTM(16, 32, num_layers=2, dropout=0.1), nn.Linear(32, 4)
    parameters = [*model.parameters(), *head.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.05, momentum=0.9)
    for _ in range(steps):
        optimizer.zero_grad()
        for _ in range(3):
            output, _ = model(torch.randn(10, 8, 16))
            loss = nn.functional.cross_entropy(head(output[-1]), torch.randint(0, 4, (8,))) / 3
            loss.backward()
            print(loss.item().hex())
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
    return parameters


def closures(steps):
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
    inputs, targets = torch.randn(64, 8), torch.randn(64, 1)

    def closure():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        return loss

    for _ in range(steps):
        print(optimizer.step(closure).item().hex())
    return model.parameters()


def scaled(steps):
    model = nn.Linear(32, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    for step in range(steps):
        optimizer.zero_grad()
        loss = model(torch.randn(16, 32)).square().mean()
        if step % 4 == 3:
            loss = loss * float("inf")
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        print(loss.item().hex())
    return model.parameters()


torch.manual_seed(0)
print(bits(globals()[sys.argv[1]](int(sys.argv[2]))))
