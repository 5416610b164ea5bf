"""How much slower unified memory is than device memory: measured, at a size that fits.

time of a pass   = copy one buffer over another, both of one kind of memory, a few times
factor           = median in unified memory / median in device memory

Pages are on the card when the passes begin. So this is the price of unified memory as such, and the
least that a run pays; one that exceeds the card pays for moving pages besides.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from pgmo.allocator.managed.context import make_managed
from pgmo.errors import OptionError
from pgmo.units import format_bytes, parse_bytes

_PASSES, _ROUNDS = 10, 7


@dataclass(frozen=True)
class Slowdown:
    """What the probe has measured.

    Args:
        factor: time in unified memory against that in device memory.
        device_seconds: for a pass in device memory, the median.
        managed_seconds: the same in unified memory.
        bytes: of each of the two buffers.

    Example:
        >>> print(Slowdown(1.25, 0.004, 0.005, 1 << 30))
        unified memory takes 1.25 times as long as device memory to copy 1.00 GiB (5.00 against \
4.00 ms)
    """

    factor: float
    device_seconds: float
    managed_seconds: float
    bytes: int

    def __str__(self) -> str:
        return (
            f"unified memory takes {self.factor:.2f} times as long as device memory to copy "
            f"{format_bytes(self.bytes)} ({self.managed_seconds * 1e3:.2f} against "
            f"{self.device_seconds * 1e3:.2f} ms)"
        )


def slowdown(
    size: str | int = "256 MiB", *, framework: str = "torch", device: object = None
) -> Slowdown:
    """Measures unified memory against device memory, where both fit.

    Args:
        size: of a buffer; four of them have to fit into what the card has free.
        framework: "torch" (default) or "cupy".
        device: as in `pgmo.managed`.

    Raises:
        OptionError: when it does not fit.
        AdapterError: as `pgmo.managed`.

    Example:
        >>> print(slowdown("1 GiB"))  # doctest: +SKIP
    """
    memory = make_managed(framework, device)
    wanted = parse_bytes(size)
    if not 0 < 4 * wanted <= memory.card.free:
        raise OptionError(
            f"four buffers of {format_bytes(wanted)} do not fit into the "
            f"{format_bytes(memory.card.free)} that {memory.card.device} has free; measure with a "
            "smaller size"
        )
    make = _cupy_pass if framework == "cupy" else _torch_pass
    plain = make(wanted, memory.pool.index)
    memory.open()
    try:
        unified = make(wanted, memory.pool.index)
    finally:
        memory.close()
    samples: tuple[list[float], list[float]] = ([], [])
    for number in range(_ROUNDS):
        for which in (0, 1) if number % 2 == 0 else (1, 0):  # in turns, for clocks change
            samples[which].append((plain, unified)[which]())
    device_seconds, managed_seconds = (statistics.median(each) for each in samples)
    return Slowdown(managed_seconds / device_seconds, device_seconds, managed_seconds, wanted)


def _timed(work: Callable[[], object], wait: Callable[[], object]) -> Callable[[], float]:
    """Seconds for one pass, of several in a row."""

    def passes() -> float:
        wait()
        begin = time.perf_counter()
        for _ in range(_PASSES):
            work()
        wait()
        return (time.perf_counter() - begin) / _PASSES

    work()  # whatever is done once: pages come to the card, kernels are loaded
    return passes


def _torch_pass(size: int, index: int) -> Callable[[], float]:
    import torch

    where = torch.device("cuda", index)
    source, target = (torch.zeros(size, dtype=torch.uint8, device=where) for _ in range(2))
    return _timed(lambda: target.copy_(source), lambda: torch.cuda.synchronize(index))


def _cupy_pass(size: int, index: int) -> Callable[[], float]:
    import cupy

    with cupy.cuda.Device(index) as device:
        source, target = (cupy.zeros(size, dtype=cupy.uint8) for _ in range(2))
    return _timed(lambda: cupy.copyto(target, source), device.synchronize)
