"""Threads against the adapter, in a process of its own: the engine aborts it on any overlap.

PGMO_CHECK=1 python -m tests.adapters.attack LIBRARY
"""

import sys
import threading
from pathlib import Path

import torch

from pgmo.allocator.adapters import torch_cuda
from tests.adapters.world import Slot, World, in_thread, serve

THREADS, REQUESTS, SEED = 8, 4000, 1


def main(library: Path) -> None:
    world = World(library)
    torch_cuda.adapter_library = lambda: world.adapter  # type: ignore[assignment]
    torch.cuda.memory.get_allocator_backend = lambda: "native"  # of a torch without CUDA
    adapter = torch_cuda.TorchCuda(0)
    world.adapter.call("pgmo_install")
    engine = adapter.engine
    # Each lives for eight requests, in one of sixteen places, and serves any size; most threads
    # ask on the default stream, the others find nothing planned.
    slots = [Slot(4096, 4096 * (at % 16), end=at + 8, varying=True) for at in range(160)]
    serve(adapter, slots, arena=4096 * 16)
    stop = threading.Event()

    def session() -> None:
        while not stop.wait(0.001):
            engine.end_iteration()
            engine.living()

    iterations = threading.Thread(target=session)
    iterations.start()
    changed: list[int] = []
    in_thread(lambda: changed.append(world.ask("attack", THREADS, REQUESTS, SEED)))
    stop.set()
    iterations.join()
    while world.adapter.ask("pgmo_poll", 0):
        pass
    statistics = engine.statistics()
    engine.remove_plans()
    engine.detach_arena()
    world.adapter.call("pgmo_uninstall")
    print(
        f"{statistics['requests']} requests, {statistics['hits']} hits, {changed[0]} changed, "
        f"{world.living()} living, {world.ask('living_events')} events, "
        f"{len(world.complaints())} complaints"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
