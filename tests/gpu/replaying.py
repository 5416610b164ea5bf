"""A session that replays, as a starting point of tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any

import torch

import pgmo

ELEMENTS = 1 << 20
TURNS = 3


def turn(value: float = 1.0) -> torch.Tensor:
    """Request two blocks of 4 MiB, as an iteration does, and return the second one."""
    x = torch.full((ELEMENTS,), value, device="cuda")
    return x * 2


@contextmanager
def replaying() -> Iterator[Any]:
    """Yield a session that replays `turn`, between two iterations."""
    # A saved plan serves at once, and has slots for all blocks that may have one.
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
    """Return a tensor in a slot of the arena.

    Several iterations may be needed, because a slot whose pages are still in use is not served.
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
    """Return a tensor from PyTorch's own allocator."""
    with session.pause():
        return torch.full((elements,), value, device="cuda")
