"""Sessions over arenas without pages, in which each block has a slot whose address is known."""

import gc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import torch

import pgmo
from pgmo.allocator import heuristics
from pgmo.rehearsal.control import hold, release

BYTES = 4 << 20


def block() -> torch.Tensor:
    """Return an uninitialized block of `BYTES`."""
    return torch.empty(BYTES, dtype=torch.uint8, device="cuda")


def twice() -> None:
    """Request two blocks, one after the other, which share a slot."""
    block()
    block()


@contextmanager
def replaying(work: Callable[[], object]) -> Iterator[Any]:
    """Yield a session that replays `work`, between two iterations."""
    with (
        TemporaryDirectory() as plans,
        pgmo.optimize(device="cuda", tags=False, pages=False, save=plans) as session,
    ):
        for _ in range(8):
            with session.iteration():
                work()
        assert session.history[-1].hits == session.history[-1].requests > 0
        yield session


@contextmanager
def pending(stream: torch.cuda.Stream) -> Iterator[None]:
    """Hold a stream of any device. Default streams have the same handle on all devices."""
    with torch.cuda.device(stream.device):
        hold(stream)
    yield
    with torch.cuda.device(stream.device):
        release(stream)


@pytest.fixture(autouse=True)
def checked(monkeypatch):
    """Let the engine check itself, plan small programs, and check that the test leaves no block."""
    monkeypatch.setenv("PGMO_CHECK", "1")
    heuristics.use(heuristics.Heuristics(price=0))
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    yield
    heuristics.use(heuristics.Heuristics())
    gc.collect()
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() <= before


@pytest.fixture
def session():
    """Yield a session that replays two blocks in one slot."""
    with replaying(twice) as opened:
        yield opened


@pytest.fixture
def in_thread():
    """Return a function that runs another one in a thread, and raises its errors."""

    def run(body: Callable[[], object]) -> None:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(body).result(60)

    return run
