"""Training of a model on each of several threads, whose number is the first argument.

With `session` as the second argument, the script opens a session, and each thread calls `step()`.
"""

import sys
import threading
from contextlib import nullcontext

import torch
from torch import nn

STEPS = 40

results = {}


def train(number, session=None):
    generator = torch.Generator().manual_seed(number)
    model = nn.Sequential(nn.Linear(64, 64 + number), nn.ReLU(), nn.Linear(64 + number, 8))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model(torch.randn(16 + number, 64, generator=generator)).square().mean()
        loss.backward()
        optimizer.step()
        if session is not None:
            session.step()
    results[number] = loss.item()


def guarded(*arguments):
    try:
        train(*arguments)
    except Exception as error:
        print(f"{type(error).__name__}: {error}")


count = int(sys.argv[1])
opened = nullcontext()
if "session" in sys.argv:
    import pgmo

    opened = pgmo.optimize(device="cpu")
with opened as session:
    threads = [threading.Thread(target=guarded, args=(one, session)) for one in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
for _, value in sorted(results.items()):
    print(value.hex())
