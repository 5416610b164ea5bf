"""One program, run plain and under pgmo, and what came of it.

    plain = run(GPT)
    with pgmo.optimize(device="cuda") as session:
        under_pgmo = run(GPT, session)
    assert_same(plain, under_pgmo)

A program is made by a call without arguments. Its `step(index)` is one iteration and returns a
tensor to be compared; its `state()` are the tensors that have to be equal in the end.
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from pgmo.allocator import heuristics
from tests.gpu.device import STUB

ITERATIONS = 14
"""A session records four or five, so that most are replayed."""


def plan_at_once() -> None:
    """Have programs as small as these planned, whatever pages windows have moved."""
    heuristics.use(heuristics.Heuristics(price=0))


class Program(Protocol):
    def step(self, index: int) -> torch.Tensor: ...

    def state(self) -> list[torch.Tensor]: ...


@dataclass(frozen=True)
class Outcome:
    """What each step returned and the final state, on the host."""

    values: list[torch.Tensor]
    state: list[torch.Tensor]


def run(make: Callable[[], Program], session: Any = None, iterations: int = ITERATIONS) -> Outcome:
    """Runs a program from the same seed, each step an iteration of the session if there is one."""
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
    """The values and the state are equal, bit for bit or nearly; not asked of the stub runtime."""
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
    """The session got to replay and the last iteration came from slots, but for a rest."""
    phases = [one.phase.value for one in session.history]
    assert phases[-1] == "replay", phases
    assert session.history[-1].hit_bytes_rate >= hit_bytes, str(session.summary())
