"""A session in replay, for tests that look at something else from there."""

from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any

import torch

import pgmo

ELEMENTS = 1 << 20
TURNS = 3


def turn(value: float = 1.0) -> torch.Tensor:
    """One iteration: two blocks of 4 MiB, of which it returns the second."""
    x = torch.full((ELEMENTS,), value, device="cuda")
    return x * 2


@contextmanager
def replaying() -> Iterator[Any]:
    """A session that replays `turn`, between two iterations."""
    # A plan that is saved serves at once, and has a slot for all that can have one.
    with (
        TemporaryDirectory() as plans,
        pgmo.optimize(device="cuda", tags=False, save=plans) as session,
    ):
        for _ in range(8):
            with session.iteration():
                turn()
        assert session.phase.value == "replay"
        assert session.history[-1].hits == 2
        yield session


def from_slot(session: Any, value: float = 1.0) -> torch.Tensor:
    """A tensor that lives in a slot of the arena.

    Slots whose pages somebody else still uses are refused, so that it may take several iterations.
    """
    for _ in range(TURNS):
        before = session.statistics
        with session.iteration():
            tensor = turn(value)
        if session.statistics["hits"] == before["hits"] + 2:
            return tensor
        del tensor
        torch.cuda.synchronize()
    raise AssertionError(f"no turn from slots: {before}, then {session.statistics}")


def from_fallback(session: Any, elements: int = ELEMENTS, value: float = 1.0) -> torch.Tensor:
    """A tensor that the allocator beneath has served."""
    with session.pause():
        return torch.full((elements,), value, device="cuda")
