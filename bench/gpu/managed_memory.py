"""Cost of unified memory if everything fits, and time that prefetching an arena saves.

    python bench/gpu/managed_memory.py --seconds 60
    python bench/gpu/managed_memory.py --quick          few steps

A step of a GPT in replay is timed:

- in device memory
- in unified memory, with all pages on the card
- with the whole arena on the host before each step, and pages that move when they are touched
- the same, with an arena that is prefetched in the order of the plan
- with half of the arena spilled to the host

The script ends with an error if the card has too little free memory for this comparison.
"""

import gc
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from _launch import ROOT, budget_of, device_or_exit, gpu_parser, write_gpu_result

sys.path.insert(0, str(ROOT))

STEPS, QUICK_STEPS, WARM_UP = 9, 2, 8
BATCH = 256  # for an arena of hundreds of MiB; with a small one, launches take all the time


def median_step(work: Callable[[], object], before: Callable[[], object], times: int) -> float:
    """Return the median seconds of `work`, without its preparation `before`."""
    import torch

    samples = []
    for _ in range(times):
        before()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        work()
        torch.cuda.synchronize()
        samples.append(time.perf_counter() - begin)
    return statistics.median(samples)


def wide_gpt() -> Any:
    """Return the GPT of the tests with a batch of `BATCH` samples."""
    import torch

    from tests.gpu.programs import GPT, LENGTH, VOCABULARY

    class Wide(GPT):
        def batch(self, index: int) -> tuple[torch.Tensor, ...]:
            start = torch.randint(VOCABULARY, (BATCH, 1))
            tokens = (start + torch.arange(LENGTH + 1)) % VOCABULARY
            return tokens[:, :-1], tokens[:, 1:]

    return Wide()


class Trained:
    """GPT that a session replays.

    Args:
        options: options of `pgmo.optimize`.
    """

    def __init__(self, **options: Any) -> None:
        import pgmo

        self.program = wide_gpt()
        self.session = pgmo.optimize(device="cuda", **options)
        self.session.__enter__()
        for index in range(WARM_UP):
            self.step(index)
        if self.session.phase != "replay":
            sys.exit(f"the session does not replay: {self.session.summary()}")

    def step(self, index: int = 0) -> None:
        with self.session.iteration():
            self.program.step(index)

    def close(self) -> tuple[int, int]:
        """Close the session; return the bytes of its arena, and of its spilled part."""
        plan = self.session.plan
        assert plan is not None
        self.session.close()
        return plan.arena, plan.spilled


def steps(free: int, times: int) -> tuple[dict[str, float], dict[str, int]]:
    """Return the seconds of a step by location of its memory, and bytes of arena and spill."""
    device = Trained(pages=False)  # pages could serve a step without an arena
    found = {"device": median_step(device.step, lambda: None, times)}
    arena, _ = device.close()
    del device
    tidy_up()
    if 8 * arena > free:
        sys.exit("the card has too little free memory: everything must fit for this comparison")
    found |= unified_steps(free, times)
    tidy_up()
    half = Trained(budget=arena // 2)
    found["half spilled"] = median_step(half.step, lambda: None, times)
    _, spilled = half.close()
    return found, {"arena": arena, "spilled": spilled}


def tidy_up() -> None:
    """Collect garbage, and empty PyTorch's cache."""
    import torch

    gc.collect()
    torch.cuda.empty_cache()


def unified_steps(free: int, times: int) -> dict[str, float]:
    """Return the seconds of a step in unified memory, by location of its pages before it."""
    import pgmo
    from pgmo.allocator.managed.unified import UnifiedAdapter

    memory = pgmo.managed()
    memory.__enter__()
    unified = Trained()
    lifecycle = unified.session._lifecycle
    assert lifecycle is not None
    framework = lifecycle.state.adapter
    assert isinstance(framework, UnifiedAdapter)
    if framework.managed.peak > free:
        sys.exit("more unified memory was held than the card had free: nothing was compared")
    found = {"managed": median_step(unified.step, lambda: None, times)}
    plan = unified.session.plan
    assert plan is not None

    def evict() -> None:
        for address, size in framework.arenas:
            framework.hints.prefetch(address, size, to_device=False)

    def prefetched() -> None:
        framework.prefetch(plan)
        unified.step()

    if framework.hints.note:
        print(framework.hints.note, file=sys.stderr)
    else:
        found["managed, arena on the host"] = median_step(unified.step, evict, times)
        found["managed, arena on the host, prefetched"] = median_step(prefetched, evict, times)
    unified.close()
    memory.__exit__(None, None, None)
    return found


def main() -> None:
    """Measure while there is time, and write the result."""
    parser = gpu_parser(__doc__, 60)
    arguments = parser.parse_args()
    device_or_exit()
    import torch

    from pgmo.allocator.managed.context import Managed
    from pgmo.errors import AdapterError

    budget = budget_of(arguments)
    try:
        card = Managed().card
    except AdapterError as error:
        print(f"Nothing measured: {error}", file=sys.stderr)
        return
    rounds: list[dict[str, float]] = []
    taken = 0.0
    most = 1 if arguments.quick else 5
    while len(rounds) < most and (not rounds or budget.left > 1.3 * taken):
        before = budget.left
        seconds, sizes = steps(card.free, QUICK_STEPS if arguments.quick else STEPS)
        rounds.append(seconds)
        taken = before - budget.left
    figures = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
    for name, seconds in figures.items():
        print(f"{name:42}{seconds * 1e3:9.3f} ms   {seconds / figures['device']:6.2f}")
    torch.cuda.synchronize()
    result = {
        "rounds": len(rounds),
        "batch": BATCH,
        "bytes": sizes,
        "seconds_per_step": figures,
    }
    write_gpu_result("managed_memory", result, arguments.output, quick=arguments.quick)


if __name__ == "__main__":
    main()
