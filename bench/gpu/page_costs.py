"""What a map takes, and a step that maps 0, 100 and 1,000 pages: pages alone, and with a plan.

    python bench/gpu/page_costs.py --seconds 30
    python bench/gpu/page_costs.py --quick          few steps and pages, to see that it works

A step trains a model of many small kernels and requests one large block besides. On pages alone
each block fits best in a hole of its own that has lost its pages, so that those of the block before
are taken and mapped there: the counters of the pages say how many. With none to map all blocks are
of the same size. Then the same step in a session that replays: the block has a slot, and nothing is
mapped. Figures are medians; the time of a map is that of the request that maps most, without what a
request takes that maps nothing, per page mapped.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import Any

from _launch import Budget, budget_of, device_or_exit, write_gpu_result
from _machine import Seconds, add_common_options

PAGE = 2 << 20
PAGES, QUICK_PAGES = (1000, 100, 0), (10, 0)
"""To map in a step; from the most on, so that holes of fewer pages lie in what larger ones left."""

STEPS, QUICK_STEPS = 10, 4
MOST_FENCES = 2000
"""Pages kept between holes: more of them mean that blocks are not placed as is expected here."""

WARM = 8
"""Steps before those that count: a session replays by then."""


@dataclass(frozen=True)
class Step:
    """What one step took.

    Args:
        seconds: of the whole step, the device waited for.
        request_seconds: of the request on the host.
        cpu_seconds: of the process.
        counted: what the counters of the pages have grown by.
    """

    seconds: float
    request_seconds: float
    cpu_seconds: float
    counted: dict[str, int]


def empty(pages: int) -> Any:
    """A block of so many pages, in which nothing is written."""
    import torch

    return torch.empty(pages * PAGE, dtype=torch.uint8, device="cuda")


def lay_holes(sizes: Sequence[int]) -> list[Any]:
    """Leaves a hole without pages for each size; returns what fills all other holes.

    Behind each block a page is kept. As it goes where it fits best, smaller holes are filled first.
    """
    import torch
    from workloads.costs import page_space

    from pgmo import _core

    blocks, fences = [], []
    for pages in sizes:
        blocks.append(empty(pages))
        behind = blocks[-1].data_ptr() + pages * PAGE
        fences.append(empty(1))
        while fences[-1].data_ptr() != behind:
            if len(fences) > MOST_FENCES:
                sys.exit("no page is put behind a large block: nothing was measured")
            fences.append(empty(1))
    blocks.clear()
    torch.cuda.empty_cache()
    _core.forget_peak(page_space())  # else pages are created up to the most that ever lived
    return fences


def sizes_of(pages: int, steps: int) -> list[int]:
    """Sizes of the blocks, none of which fits in the hole of the one before it."""
    import torch

    if not pages:
        return [1] * steps
    free, _ = torch.cuda.mem_get_info()
    return [pages + index for index in range(min(steps, free // 2 // (pages * PAGE)))]


def measure(sizes: Sequence[int], budget: Budget, session: Any = None) -> list[Step]:
    """Runs steps that request a block of the next size, after some with the first size."""
    import torch
    from _overhead_worker import Steps
    from workloads.costs import page_counters

    model, found = Steps(), []
    for pages in [*[sizes[0]] * WARM, *sizes]:
        torch.cuda.synchronize()
        before, cpu, begin = page_counters(), time.process_time(), time.perf_counter()
        with session.iteration() if session else nullcontext():
            block = empty(pages)
            requested = time.perf_counter()
            model.step()
            del block
        seconds, spent = time.perf_counter() - begin, time.process_time() - cpu
        counted = {name: count - before.get(name, 0) for name, count in page_counters().items()}
        found.append(Step(seconds, requested - begin, spent, counted))
        if len(found) > WARM and not budget.left:
            break
    return found[WARM:]


def row(allocator: str, pages: int, steps: list[Step]) -> dict[str, Any]:
    """Medians of the steps of one kind."""

    def per_step(of: Callable[[Step], float]) -> float:
        return statistics.median(map(of, steps))

    return {
        "allocator": allocator,
        "pages": pages,
        "maps": per_step(lambda one: one.counted["page_maps"]),
        "requests_that_map": per_step(lambda one: one.counted["page_requests"]),
        "waits": per_step(lambda one: one.counted["page_waits"]),
        "unmaps": per_step(lambda one: one.counted["page_unmaps"]),
        "creates": per_step(lambda one: one.counted["page_creates"]),
        "cpu_seconds": per_step(lambda one: one.cpu_seconds),
        "request": asdict(Seconds.of([one.request_seconds for one in steps])),
        "step": asdict(Seconds.of([one.seconds for one in steps])),
    }


def time_of_a_map(rows: list[dict[str, Any]]) -> float | None:
    """Return the seconds that a page more takes in a request that maps; None: none was mapped."""
    most, *_, none = (one for one in rows if one["allocator"] == "pages")
    if most["maps"] <= none["maps"]:
        return None
    longer = most["request"]["median"] - none["request"]["median"]
    return float(longer / (most["maps"] - none["maps"]))


def show(one: dict[str, Any]) -> None:
    print(
        f"{one['allocator']:8}{one['pages']:6} pages  {one['maps']:6.0f} maps a step"
        f"  request {one['request']['median'] * 1e6:9.1f} µs"
        f"  step {one['step']['median'] * 1e3:8.3f} ms",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60, help="time budget")
    add_common_options(parser)
    arguments = parser.parse_args()
    device_or_exit()
    from workloads.allocators import install_pages

    install_pages("pages")
    import pgmo

    budget = budget_of(arguments)
    steps = QUICK_STEPS if arguments.quick else STEPS
    wanted = QUICK_PAGES if arguments.quick else PAGES
    rows = []
    for pages in wanted:
        sizes = sizes_of(pages, steps)
        fences = lay_holes(sizes) if pages else []
        rows.append(row("pages", pages, measure(sizes, budget)))
        show(rows[-1])
        fences.clear()
    with pgmo.optimize(device="cuda") as session:
        replayed = measure([wanted[0]] * steps, budget, session)
        if session.history[-1].phase.value != "replay":
            sys.exit(f"the session does not replay: {session.summary()}")
    rows.append(row("pgmo", wanted[0], replayed))
    show(rows[-1])
    seconds = time_of_a_map(rows)
    if seconds is not None:
        print(f"a map takes {seconds * 1e6:.2f} µs")
    result = {"map_seconds": seconds, "page_bytes": PAGE, "rows": rows}
    write_gpu_result("page_costs", result, arguments.output, quick=arguments.quick)


if __name__ == "__main__":
    main()
