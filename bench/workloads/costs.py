"""Driver calls, waits and CPU time that an allocator costs a program.

    costs = RunCosts(24)
    for _ in range(24):
        step()
        costs.end_iteration()
    row |= costs.figures()

The stub counts the driver calls of every allocator. On a GPU, only pgmo's pages count their calls;
the calls of PyTorch's own allocators are unknown.
"""

import os
import sys
import time
from dataclasses import dataclass, field
from functools import cache
from typing import Any

PAGE_CALLS = ("creates", "releases", "maps", "grants", "unmaps")
"""Calls of the driver's virtual memory functions that pages count."""

PER_ITERATION = {
    "maps": "page_maps",
    "requests_that_map": "page_requests",
    "waits": "page_waits",
    "waits_added": "page_waits_added",
    "hand_overs": "page_hand_overs",
}
"""Counter of the pages for each figure of a row."""


class RunCosts:
    """Counters at the end of each iteration, and the CPU time of all iterations.

    Args:
        iterations: number of iterations of the run; None if it is unknown before the end.

    Attributes:
        cpu_seconds: CPU seconds of the process from the creation of this object to the end of the
            last iteration.
    """

    def __init__(self, iterations: int | None = None) -> None:
        self._iterations = iterations
        self._readings = [Reading.now()]
        self._began = time.process_time()
        self.cpu_seconds = 0.0

    def end_iteration(self) -> None:
        self.cpu_seconds = time.process_time() - self._began
        self._readings.append(Reading.now())

    @property
    def ended(self) -> int:
        """Number of iterations that have ended."""
        return len(self._readings) - 1

    @property
    def late_from(self) -> int:
        """Number of iterations before the last third."""
        whole = self.ended if self._iterations is None else self._iterations
        return whole * 2 // 3

    def figures(self) -> dict[str, Any]:
        """Return the CPU time, and counts per iteration of the last third.

        Counts are None if the run ended before its last third, and driver calls also if they are
        not counted. Without pages, the pages' counts are left out.
        """
        last = self._readings[-1]
        early = self._readings[min(self.late_from, self.ended)]
        late = self.ended - self.late_from
        found: dict[str, Any] = {
            "cpu_seconds": self.cpu_seconds,
            "driver_calls": None,
            "driver_calls_before": sum(early.calls.values()),
        }
        if late > 0 and last.calls:
            grown = {kind: count - early.calls.get(kind, 0) for kind, count in last.calls.items()}
            found["driver_calls"] = {kind: count / late for kind, count in grown.items() if count}
        for figure, counter in PER_ITERATION.items() if last.pages else ():
            count = last.pages[counter] - early.pages.get(counter, 0)
            found[figure] = count / late if late > 0 else None
        return found


def costs_of_steps() -> RunCosts:
    """Return counters whose iterations are optimizer steps, for programs that are not changed.

    A program with two optimizers has two optimizer steps per iteration.
    """
    from torch.optim.optimizer import register_optimizer_step_post_hook

    costs = RunCosts()
    register_optimizer_step_post_hook(lambda *_: costs.end_iteration())
    return costs


@dataclass(frozen=True)
class Reading:
    """Counters of the process at one moment.

    Args:
        calls: calls of the driver's virtual memory functions by kind; empty if not counted.
        pages: counters of pgmo's pages; empty without pages.
    """

    calls: dict[str, int] = field(default_factory=dict)
    pages: dict[str, int] = field(default_factory=dict)

    @classmethod
    def now(cls) -> "Reading":
        pages = page_counters()
        if "PGMO_FAKECUDA" in os.environ:
            from pgmo.rehearsal import control

            return cls(control.driver_calls(), pages)
        return cls({kind: pages[f"page_{kind}"] for kind in PAGE_CALLS if pages}, pages)


def page_counters(device: int = 0) -> dict[str, int]:
    """Return the counters of a device's pages; empty without pages. A session is not needed."""
    space = page_space(device)
    if not space:
        return {}
    counted = _reader(space).statistics()
    return {name: count for name, count in counted.items() if name.startswith("page_")}


def page_space(device: int = 0) -> int:
    """Return the handle of a device's pages; 0 without pages."""
    adapters = sys.modules.get("pgmo.allocator.adapters.torch_cuda")
    return adapters.adapter_library().pointer("pgmo_space_of", device) if adapters else 0


@cache
def _reader(space: int) -> Any:
    """Return an engine that only reads the counters of pages."""
    from pgmo import _core

    engine = _core.Engine()
    engine.use_pages(space)
    return engine
