"""Tests that pgmo releases an idle arena and repeats a request that malloc refused."""

import json

import pytest

from tests import forked

pytest.importorskip("torch")

PROGRAM = """
import json, resource
import pgmo, torch

MIB = 1 << 20
torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(8)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def limit_addresses(more=None):
    \"\"\"Leaves the process so many bytes more than it has.\"\"\"
    most = resource.RLIM_INFINITY
    if more is not None:
        with open("/proc/self/statm") as file:
            most = int(file.read().split()[0]) * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))

def train(keep_gradients):
    if keep_gradients:  # until the next iteration
        optimizer.zero_grad()
    loss = model(torch.ones(2048, 256)).square().mean()
    loss.backward()
    optimizer.step()
    if not keep_gradients:
        optimizer.zero_grad()

def ask(bytes):
    try:
        return torch.empty(bytes, dtype=torch.uint8).numel()
    except RuntimeError as error:
        return type(error).__name__ + ": " + str(error)

def run(keep_gradients, paused):
    with pgmo.optimize(device="cpu") as session:
        for _ in range(10):
            train(keep_gradients)
            session.step()
        limit_addresses(more=80 * MIB)
        if paused:
            with session.pause():
                asked = [ask(96 * MIB), ask(1 << 40)]
        else:
            asked = [ask(96 * MIB), ask(1 << 40)]
        limit_addresses()
        for _ in range(6):
            train(keep_gradients)
            session.step()
    rates = [one.hit_rate for one in session.history]
    return {"asked": asked, "before": rates[9], "after": rates[-1]}
"""


def run(**how):
    ended = forked.run(f"{PROGRAM}\nprint(json.dumps(run(**{how})))")
    assert ended.exit_code == 0, ended.errors
    return json.loads(ended.output)


@pytest.mark.parametrize("paused", [True, False])
def test_an_idle_arena_goes_back_to_malloc(paused):
    found = run(keep_gradients=False, paused=paused)
    served, refused = found["asked"]
    assert served == 96 << 20
    assert "allocate memory" in refused or "out of memory" in refused
    assert found["before"] == found["after"] == 1


def test_an_arena_that_holds_gradients_stays():
    found = run(keep_gradients=True, paused=True)
    assert all("allocate memory" in one for one in found["asked"])
    assert found["before"] == found["after"] == 1
