"""Training on the main thread, while another thread evaluates copies of the model.

With `pause` as the first argument, the script opens a session, and pauses it for evaluations.
"""

import copy
import sys
import threading
from contextlib import nullcontext

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
started, stop = threading.Event(), threading.Event()
session = None
if "pause" in sys.argv:
    import pgmo

    session = pgmo.optimize(device="cpu").__enter__()


def evaluate():
    while not stop.is_set():
        with nullcontext() if session is None else session.pause(), torch.no_grad():
            copy.deepcopy(model)(torch.ones(128, 64)).sum()
        started.set()


thread = threading.Thread(target=evaluate)
thread.start()
started.wait()
generator = torch.Generator().manual_seed(1)
try:
    for _ in range(60):
        optimizer.zero_grad()
        loss = model(torch.randn(32, 64, generator=generator)).square().mean()
        loss.backward()
        optimizer.step()
        print(loss.item().hex())
        if session is not None:
            session.step()
finally:
    stop.set()
    thread.join()
if session is not None:
    session.close()
    print(session.history[-1].phase, f"{session.history[-1].hit_bytes_rate:.2f}")
