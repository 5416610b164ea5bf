"""A session in replay, for tests that look at something else from there."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

import pgmo

ELEMENTS = 1 << 20


def turn(value: float = 1.0) -> torch.Tensor:
    """One iteration: two blocks of 4 MiB, of which it returns the second."""
    x = torch.full((ELEMENTS,), value, device="cuda")
    return x * 2


@contextmanager
def replaying() -> Iterator[Any]:
    """A session that replays `turn`, between two iterations."""
    with pgmo.optimize(device="cuda", tags=False) as session:
        for _ in range(8):
            with session.iteration():
                turn()
        assert session.phase.value == "replay"
        assert session.history[-1].hits == 2
        yield session


def from_slot(session: Any, value: float = 1.0) -> torch.Tensor:
    """A tensor that lives in a slot of the arena."""
    hits = session.statistics["hits"]
    tensor = turn(value)
    assert session.statistics["hits"] == hits + 2
    return tensor


def from_fallback(session: Any, elements: int = ELEMENTS, value: float = 1.0) -> torch.Tensor:
    """A tensor that the allocator beneath has served."""
    with session.pause():
        return torch.full((elements,), value, device="cuda")
