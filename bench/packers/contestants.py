"""Packers that are measured against each other, each run in a process of its own.

A contestant gets a problem, a time limit, a number of threads and a seed, and returns offsets, or
None if it has found nothing. A contestant that exceeds the limit too far is killed. The time is
that of the call, without the start of the process and imports. The validator checks the result.
"""

import importlib.util
import multiprocessing
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pgmo.packing.planner import plan
from pgmo.packing.problem import Problem
from pgmo.packing.solving.packer import pack
from pgmo.packing.solving.result import Packing
from pgmo.packing.validator import validate

Offsets = NDArray[np.int64] | None
Contestant = Callable[[Problem, float, int, int], "Offsets | Packing"]

PATIENCE = 3.0  # multiple of the time limit after which a process is killed
GRACE = 30.0  # additional seconds, for imports and the start


@dataclass(frozen=True)
class Run:
    """Result of one run.

    Args:
        arena: size of the arena in bytes; None without a valid result.
        seconds: wall-clock seconds of the call.
        trace: (seconds, arena) of each better packing; only pgmo's planner reports it.
        why: reason why there is no result; "" if there is one.
    """

    arena: int | None
    seconds: float
    trace: tuple[tuple[float, int], ...] = ()
    why: str = ""


def run(name: str, problem: Problem, seconds: float, threads: int, seed: int) -> Run:
    """Run a contestant in a fresh process."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=_work, args=(there, name, problem, seconds, threads, seed))
    begin = time.perf_counter()
    child.start()
    there.close()
    try:
        if here.poll(PATIENCE * seconds + GRACE):
            return here.recv()
        return Run(None, time.perf_counter() - begin, why="did not end in time")
    except EOFError:
        child.join()
        return Run(None, time.perf_counter() - begin, why=f"ended with code {child.exitcode}")
    finally:
        child.kill()
        child.join()


def _work(pipe: Any, name: str, problem: Problem, seconds: float, threads: int, seed: int) -> None:
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    try:
        contestant = CONTESTANTS[name].prepare(problem)
        begin = time.perf_counter()
        found = contestant(problem, seconds, threads, seed)
        wall = time.perf_counter() - begin
        trace: tuple[tuple[float, int], ...] = ()
        if isinstance(found, Packing):
            trace = tuple((event.seconds, event.arena) for event in found.trace)
            found = found.offset
        if found is None:
            pipe.send(Run(None, wall, why="found nothing"))
            return
        pipe.send(Run(arena_of(problem, found), wall, trace))
    except Exception as error:  # peers raise various types
        pipe.send(Run(None, 0.0, why=f"{type(error).__name__}: {error}"[:200]))


def arena_of(problem: Problem, offset: NDArray[np.int64]) -> int:
    """Check a packing, and return its arena in bytes."""
    size = -(-problem.size // problem.alignment) * problem.alignment
    arena = int((offset + size).max(initial=0))
    numbered = problem.numbered()
    claimed = Packing(numbered, offset, arena, arena, arena, "", 0.0)
    validate(claimed.as_plan())
    return arena


@dataclass(frozen=True)
class Entry:
    """Contestant and its limits.

    Args:
        prepare: returns the contestant for a problem; not part of the measured time.
        installed: whether its package is installed.
        circles: whether it can solve problems whose time is a circle.
        most_blocks: largest number of blocks on which it runs.
    """

    prepare: Callable[[Problem], Contestant]
    installed: bool = True
    circles: bool = True
    most_blocks: int = 10**9


def _pgmo(**options: Any) -> Callable[[Problem], Contestant]:
    def solve(problem: Problem, seconds: float, threads: int, seed: int) -> Packing:
        return plan(problem, time_limit=seconds, threads=threads, seed=seed, **options)

    return lambda problem: solve


def _packer(name: str) -> Callable[[Problem], Contestant]:
    return lambda problem: lambda problem, seconds, threads, seed: pack(problem, name)


def _cp_sat(problem: Problem) -> Contestant:
    """Return CP-SAT, which gets the lower bound, and starts from Sekiyama's heuristic."""
    from ortools.sat.python import cp_model  # noqa: F401  (not part of the time)

    from pgmo.packing.lower_bound import max_load
    from pgmo.packing.solving import cp_sat

    def solve(problem: Problem, seconds: float, threads: int, seed: int) -> Offsets:
        start, bound = pack(problem, "best-fit"), max_load(problem)
        size = -(-problem.size // problem.alignment) * problem.alignment
        if (start + size).max(initial=0) == bound:
            return start
        return cp_sat.solve(
            problem, start, bound, time_limit=seconds, threads=threads, seed=seed
        ).offset

    return solve


def _omnimalloc(name: str) -> Callable[[Problem], Contestant]:
    def prepare(problem: Problem) -> Contestant:
        import omnimalloc
        from omnimalloc.allocators import OmniAllocator, SupermallocAllocator

        size = -(-problem.size // problem.alignment) * problem.alignment
        rows = zip(size.tolist(), problem.lower.tolist(), problem.upper.tolist(), strict=True)
        blocks = tuple(
            omnimalloc.Allocation(id=i, size=size, start=lower, end=upper)
            for i, (size, lower, upper) in enumerate(rows)
        )

        def solve(problem: Problem, seconds: float, threads: int, seed: int) -> Offsets:
            if name == "omni":
                allocator: Any = OmniAllocator()
            else:
                allocator = SupermallocAllocator(timeout=seconds, num_threads=threads)
            placed = {one.id: one.offset for one in allocator.allocate(blocks)}
            return np.array([placed[i] for i in range(len(blocks))], np.int64)

        return solve

    return prepare


def _there(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


CONTESTANTS: dict[str, Entry] = {
    "pgmo": Entry(_pgmo()),
    "pgmo fast": Entry(_pgmo(effort="fast")),
    "Sekiyama 2018": Entry(_packer("best-fit")),
    "omnimalloc omni": Entry(_omnimalloc("omni"), _there("omnimalloc"), circles=False),
    "omnimalloc supermalloc": Entry(
        _omnimalloc("supermalloc"), _there("omnimalloc"), circles=False
    ),
    "CP-SAT": Entry(_cp_sat, _there("ortools"), most_blocks=3000),
}
"""pgmo and its peers.

Peers that are not installed, or cannot solve a problem on a circle, are left out. With more than
3,000 blocks, CP-SAT finds nothing and needs gigabytes, so it does not run.
"""
