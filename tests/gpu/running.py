"""Runs of a program with and without pgmo, and their comparison.

    plain = run(GPT)
    with pgmo.optimize(device="cuda") as session:
        under_pgmo = run(GPT, session)
    assert_same(plain, under_pgmo)

A call without arguments makes a program. `step(index)` runs an iteration and returns a tensor to
compare, and `state()` returns the tensors to compare at the end.
"""

import hashlib
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from pgmo.allocator import heuristics
from tests.gpu.device import STUB

ITERATIONS = 14
"""Iterations of a run, of which a session records four or five."""


def digest(tensors: Iterable[torch.Tensor]) -> str:
    """Return a digest of the bytes of tensors."""
    total = hashlib.sha256()
    for tensor in tensors:
        flat = tensor.detach().cpu().reshape(-1).contiguous()  # scalars have no dimension
        total.update(flat.view(torch.uint8).numpy().tobytes())
    return total.hexdigest()


def plan_at_once() -> None:
    """Let sessions plan programs even if a plan saves few bytes."""
    heuristics.use(heuristics.Heuristics(price=0))


class Program(Protocol):
    def step(self, index: int) -> torch.Tensor: ...

    def state(self) -> list[torch.Tensor]: ...


@dataclass(frozen=True)
class Outcome:
    """Returned values of all steps and the final state, on the host."""

    values: list[torch.Tensor]
    state: list[torch.Tensor]


def run(make: Callable[[], Program], session: Any = None, iterations: int = ITERATIONS) -> Outcome:
    """Run a program from a fixed seed; each step is an iteration of the session, if any."""
    torch.manual_seed(0)
    program = make()
    values = []
    for index in range(iterations):
        torch.manual_seed(1000 + index)
        with session.iteration() if session is not None else nullcontext():
            values.append(program.step(index).detach().cpu())
    torch.cuda.synchronize()
    return Outcome(values, [tensor.detach().cpu() for tensor in program.state()])


def assert_same(one: Outcome, other: Outcome, *, exact: bool = True) -> None:
    """Check that values and state are equal, or close; on the stub, only their numbers are."""
    assert len(one.values) == len(other.values)
    assert len(one.state) == len(other.state)
    if STUB:
        return
    for left, right in zip(one.values + one.state, other.values + other.state, strict=True):
        if exact:
            assert torch.equal(left, right)
        else:
            torch.testing.assert_close(left, right, rtol=2e-2, atol=2e-3)


def assert_replayed(session: Any, hit_bytes: float = 0.99) -> None:
    """Check that the session replays, and the share of bytes from slots in the last iteration."""
    phases = [one.phase.value for one in session.history]
    assert phases[-1] == "replay", phases
    assert session.history[-1].hit_bytes_rate >= hit_bytes, str(session.summary())
