"""Threads allocate, fill, pass on and free blocks: no byte changes while its block is live."""

import random
import sys
import threading

import torch

from tests.fakecuda.adapter.conftest import replaying

SIZES = [512 * (1 + at % 40) for at in range(32)]
THREADS, TURNS, ITERATIONS, ROUNDS = 8, 150, 6, 40


def rounds() -> None:
    """Request many blocks that live at the same time, in several rounds."""
    for _ in range(ROUNDS):
        blocks = [torch.empty(size, dtype=torch.uint8, device="cuda") for size in SIZES]
        del blocks


class Shelf:
    """Blocks that any thread may take, each with the value of all its bytes."""

    def __init__(self) -> None:
        self._lock, self._blocks = threading.Lock(), []

    def exchange(self, tensor: torch.Tensor, value: int, at: int) -> tuple[torch.Tensor, int]:
        with self._lock:
            self._blocks.append((tensor, value))
            return self._blocks.pop(at % len(self._blocks))

    def clear(self) -> None:
        self._blocks.clear()


def test_no_thread_gets_memory_of_another_one():
    shelf, failures, streams = Shelf(), [], [torch.cuda.Stream() for _ in range(2)]

    def work(seed: int) -> None:
        chance = random.Random(seed)
        stream = chance.choice([torch.cuda.default_stream(), *streams])
        try:
            for turn in range(TURNS):
                value = (seed * TURNS + turn) % 251
                with torch.cuda.stream(stream):
                    tensor = torch.empty(chance.choice(SIZES), dtype=torch.uint8, device="cuda")
                    tensor.copy_(torch.full(tensor.shape, value, dtype=torch.uint8))
                tensor.record_stream(chance.choice(streams))
                taken, expected = shelf.exchange(tensor, value, chance.randrange(64))
                assert set(taken.cpu().unique().tolist()) == {expected}
                del tensor, taken
        except BaseException as error:
            failures.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with replaying(rounds) as session:
            for number in range(ITERATIONS):
                with session.iteration():
                    threads = [
                        threading.Thread(target=work, args=(number * THREADS + at,))
                        for at in range(THREADS)
                    ]
                    for thread in threads:
                        thread.start()
                    for thread in threads:
                        thread.join()
            assert not failures
            assert sum(one.hits for one in session.history[-ITERATIONS:]) > 100
            shelf.clear()
            torch.cuda.synchronize()
    finally:
        sys.setswitchinterval(interval)


def test_the_profiler_gets_slots():
    with replaying(rounds) as session:
        cpu = [torch.profiler.ProfilerActivity.CPU]
        with torch.profiler.profile(activities=cpu, profile_memory=True) as profile:
            with session.iteration():
                rounds()
        assert session.history[-1].hits == ROUNDS * len(SIZES)
    sizes = [event.self_device_memory_usage for event in profile.key_averages()]
    assert sum(size for size in sizes if size > 0) >= sum(SIZES)
