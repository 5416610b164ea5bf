"""Counts what an allocator costs a program beside memory.

    costs = RunCosts(24)
    for _ in range(24):
        step()
        costs.end_iteration()
    row |= costs.figures()

On the stub the driver's calls are counted for every allocator. A GPU has no such count, so there
they are those of pgmo's pages, and unknown for PyTorch's own allocators.
"""

import os
import sys
import time
from dataclasses import dataclass, field
from functools import cache
from typing import Any

PAGE_CALLS = ("creates", "releases", "maps", "grants", "unmaps")
"""Calls of the driver's virtual memory that the pages count."""

PER_ITERATION = {
    "maps": "page_maps",
    "requests_that_map": "page_requests",
    "waits": "page_waits",
    "waits_added": "page_waits_added",
    "hand_overs": "page_hand_overs",
}
"""Figures of a row, and the counter of the pages that each is read from."""


class RunCosts:
    """Counters at the end of each iteration, and the CPU time of all iterations.

    Args:
        iterations: that the run has; None where nobody knows before it ends.

    Attributes:
        cpu_seconds: of the process, from here to the end of the last iteration.
    """

    def __init__(self, iterations: int | None = None) -> None:
        self._iterations = iterations
        self._readings = [Reading.now()]
        self._began = time.process_time()
        self.cpu_seconds = 0.0

    def end_iteration(self) -> None:
        """Reads the counters."""
        self.cpu_seconds = time.process_time() - self._began
        self._readings.append(Reading.now())

    @property
    def ended(self) -> int:
        """Return how many iterations have ended."""
        return len(self._readings) - 1

    @property
    def late_from(self) -> int:
        """Return how many iterations come before the last third."""
        whole = self.ended if self._iterations is None else self._iterations
        return whole * 2 // 3

    def figures(self) -> dict[str, Any]:
        """Return the CPU time, and counts per iteration of the last third.

        Counts are None where the last third was not reached, and where nobody counts. Those of
        pages are left out where pgmo serves nothing.
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
    """Return counters of a program that knows nothing of them: an iteration is an optimizer's step.

    A program of two optimizers has two such iterations for each of its own.
    """
    from torch.optim.optimizer import register_optimizer_step_post_hook

    costs = RunCosts()
    register_optimizer_step_post_hook(lambda *_: costs.end_iteration())
    return costs


@dataclass(frozen=True)
class Reading:
    """Counters of the process at one moment.

    Args:
        calls: of the driver's virtual memory, by kind; empty where nobody counts.
        pages: counters of pgmo's pages; empty where there are none.
    """

    calls: dict[str, int] = field(default_factory=dict)
    pages: dict[str, int] = field(default_factory=dict)

    @classmethod
    def now(cls) -> "Reading":
        """Read all counters."""
        pages = page_counters()
        if "PGMO_FAKECUDA" in os.environ:
            from pgmo.rehearsal import control

            return cls(control.driver_calls(), pages)
        return cls({kind: pages[f"page_{kind}"] for kind in PAGE_CALLS if pages}, pages)


def page_counters(device: int = 0) -> dict[str, int]:
    """Return the counters of a device's pages, which need no session; empty without pages."""
    space = page_space(device)
    if not space:
        return {}
    counted = _reader(space).statistics()
    return {name: count for name, count in counted.items() if name.startswith("page_")}


def page_space(device: int = 0) -> int:
    """Return the handle of a device's pages; 0 where there are none."""
    adapters = sys.modules.get("pgmo.allocator.adapters.torch_cuda")
    return adapters.adapter_library().pointer("pgmo_space_of", device) if adapters else 0


@cache
def _reader(space: int) -> Any:
    """Return an engine that serves nothing, and reads the counters of these pages."""
    from pgmo import _core

    engine = _core.Engine()
    engine.use_pages(space)
    return engine
