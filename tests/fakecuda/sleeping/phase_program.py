"""Models and an optimizer that sleep in phases, for the tests of this folder."""

from typing import Any

from tests.fakecuda.pages.block_program import BEGIN
from tests.fakecuda.programs import run_program

PARTS = (
    BEGIN
    + """
def module():
    return torch.nn.Sequential(*(torch.nn.Linear(2048, 2048, False, device="cuda") for _ in "1234"))

policy, reference, engine = module(), module(), module()
optimizer = torch.optim.AdamW(policy.parameters(), foreach=False)
cache = [block(40), block(40)]

def step():
    for one in policy.parameters():
        one.grad = torch.zeros_like(one)
    optimizer.step()
    optimizer.zero_grad()

def states():
    return [t for state in optimizer.state.values() for t in state.values() if t.is_cuda]

def fill(tensors):
    for at, tensor in enumerate(tensors):
        tensor.data.copy_(torch.full(tensor.shape, float(at)))

def has_values(tensors):
    return all((tensor.detach().cpu() == at).all().item() for at, tensor in enumerate(tensors))

def error_of(call):
    try:
        call()
    except pgmo.PgmoError as error:
        return str(error)
    return None
"""
)
"""Code that makes a policy, a reference and an engine of 64 MiB each, 128 MiB of optimizer state,
and a cache of 80 MiB."""


def run_parts(code: str, **environment: str) -> Any:
    """Run code after `PARTS`, and return its last line of output as JSON."""
    return run_program(PARTS + code, **environment)
