"""Worker of `overhead.py`: measures allocations and steps in one process, and prints JSON.

    python bench/gpu/_overhead_worker.py pgmo LIBRARY
    python bench/gpu/_overhead_worker.py pages LIBRARY
    python bench/gpu/_overhead_worker.py plugin LIBRARY

With "pgmo", torch's own allocator and a session in replay take turns in the process. With "pages",
pgmo's pages without a session serve everything. With "plugin", a plug-in that does nothing is
measured.
"""

import ctypes
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from workloads.allocators import install_pages
from workloads.costs import RunCosts

SIZES = [512, 2048, 16 << 10, 100 << 10, 700 << 10, 1 << 20, 3 << 20, 6 << 20, 11 << 20]
LIVE = {"at once": 1, "64 live": 64}
RECORDED = 8
"""Number of iterations after which a session has to replay."""

Samples = dict[str, list[float]]


@dataclass(frozen=True)
class Counts:
    """Numbers of repetitions.

    Args:
        turns: allocations of a loop through the C++ interface, for each size.
        python_turns: allocations of a loop in Python.
        repeats: repetitions of each loop.
        rounds: rounds of steps, each without a session and in a session.
        steps: steps of a round.
    """

    turns: int = 2000
    python_turns: int = 500
    repeats: int = 30
    rounds: int = 4
    steps: int = 60


QUICK = Counts(turns=50, python_turns=50, repeats=2, rounds=2, steps=15)


class Loops:
    """Timed loops; each returns nanoseconds per allocation and free."""

    def __init__(self, library: ctypes.CDLL, counts: Counts) -> None:
        self.counts = counts
        self._run = library.allocation_loop
        self._run.restype = ctypes.c_double
        self._sizes = (ctypes.c_int64 * len(SIZES))(*SIZES)

    def interface(self, live: int) -> float:
        """Allocate through the C++ interface, with `live` blocks alive at a time."""
        counts = (len(SIZES), self.counts.turns, live)
        return self._run(self._sizes, *map(ctypes.c_int64, counts))

    def python(self) -> float:
        """Allocate and free through `torch.empty` and `del`."""
        begin = time.perf_counter_ns()
        turns = self.counts.python_turns
        for turn in range(turns):
            block = torch.empty(SIZES[turn % len(SIZES)], dtype=torch.uint8, device="cuda")
            del block
        return (time.perf_counter_ns() - begin) / turns

    def all(self) -> dict[str, Callable[[], float]]:
        loops = {
            f"C++, {name}": lambda live=live: self.interface(live) for name, live in LIVE.items()
        }
        return {**loops, "torch.empty": self.python}


def time_loops(loops: Loops, who: str, samples: dict[str, Samples]) -> None:
    """Measure the installed allocator, and add samples under the name `who`."""
    for name, loop in loops.all().items():
        loop()
        samples[name][who].extend(loop() for _ in range(loops.counts.repeats))


def time_loops_in_replay(loops: Loops, samples: dict[str, Samples]) -> None:
    """Measure pgmo in replay, an iteration per repetition; raise an error if slots do not serve."""
    import pgmo

    for name, loop in loops.all().items():
        with pgmo.optimize(device="cuda", tags=False) as session:
            for index in range(RECORDED + loops.counts.repeats):
                with session.iteration():
                    taken = loop()
                if index >= RECORDED:
                    last = session.history[-1]
                    if last.phase.value != "replay" or last.hit_rate < 0.999:
                        raise RuntimeError(f"{name}: not served from slots\n{session.summary()}")
                    samples[name]["pgmo"].append(taken)


class Steps:
    """Training of a model with many small kernels: launching them takes all of the step time."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        layers = [part for _ in range(40) for part in (nn.Linear(64, 64), nn.ReLU())]
        self.model = nn.Sequential(*layers).cuda()
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.inputs = torch.randn(8, 64, device="cuda")

    def step(self) -> float:
        """Train once; return the seconds until the device has finished."""
        torch.cuda.synchronize()
        begin = time.perf_counter()
        self.optimizer.zero_grad()
        self.model(self.inputs).square().mean().backward()
        self.optimizer.step()
        torch.cuda.synchronize()
        return time.perf_counter() - begin


def time_steps(samples: dict[str, Samples], counts: Counts) -> None:
    """Measure steps without a session, while recording, and in replay; raise without replay."""
    import pgmo

    steps = Steps()
    for _ in range(10):
        steps.step()
    found = samples["step"]
    for number in range(counts.rounds):
        found["default"].extend(steps.step() for _ in range(counts.steps))
        tags = number == counts.rounds - 1  # in one recorded iteration of the last round
        with pgmo.optimize(device="cuda", tags=tags) as session:
            for _ in range(counts.steps):
                with session.iteration():
                    taken = steps.step()
                phase = session.history[-1].phase.value
                if phase == "record" and tags:
                    phase = "record, tags"
                found["pgmo" if phase == "replay" else phase].append(taken)
    if not found["pgmo"]:
        raise RuntimeError(f"the session never replayed\n{session.summary()}")


def time_steps_on_pages(samples: dict[str, Samples], counts: Counts) -> dict[str, Any]:
    """Measure steps on pages without a session; return the pages' figures per step."""
    steps = Steps()
    for _ in range(10):
        steps.step()
    costs = RunCosts()
    for _ in range(counts.rounds * counts.steps):
        samples["step"]["pages"].append(steps.step())
        costs.end_iteration()
    return costs.figures()


def main() -> None:
    kind, path, *quick = sys.argv[1:]
    counts = QUICK if quick else Counts()
    samples: dict[str, Samples] = defaultdict(lambda: defaultdict(list))
    if kind == "plugin":
        plain = torch.cuda.memory.CUDAPluggableAllocator(path, "plain_alloc", "plain_free")
        torch.cuda.memory.change_current_allocator(plain)
    install_pages(kind)
    torch.cuda.init()
    loops = Loops(ctypes.CDLL(path), counts)
    result: dict[str, Any] = {"samples": samples}
    if kind == "plugin":
        time_loops(loops, "plugin", samples)
    elif kind == "pages":
        time_loops(loops, "pages", samples)
        result["pages"] = time_steps_on_pages(samples, counts)
    else:
        time_loops(loops, "default", samples)
        time_loops_in_replay(loops, samples)
        time_loops(loops, "default", samples)
        time_steps(samples, counts)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
