"""Traces of simulated training loops."""

from pgmo.profiler.tag import Tag
from pgmo.profiler.trace import Event, Trace

TAGS = (
    Tag("Net", "aten.mm", "forward", "train.py:10 in step"),
    Tag("", "aten.nll_loss", "forward", "train.py:12 in step"),
    Tag("Adam", "aten.zeros_like", "optimizer", "train.py:14 in step"),
    Tag("Net", "aten.mm", "backward", "train.py:13 in step"),
)
ACTIVATION, LOSS, STATE, GRADIENT = range(4)


class Loop:
    """A recording of requests that get the lowest free address."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, int, int, int]] = []
        self._taken: dict[int, int] = {}

    def alloc(self, size: int, tag: int = -1, stream: int = 0) -> int:
        address = 512
        for start in sorted(self._taken):
            if address + size <= start:
                break
            address = max(address, -(-(start + self._taken[start]) // 512) * 512)
        self._taken[address] = size
        self.rows.append((Event.ALLOC, address, size, stream, tag))
        return address

    def free(self, address: int) -> None:
        size = self._taken.pop(address)
        for kind in (Event.FREE_REQUESTED, Event.FREE_COMPLETED):
            self.rows.append((kind, address, size, 0, -1))

    def mark(self) -> None:
        self.rows.append((Event.MARK, 0, 0, 0, -1))

    def segment(self, address: int, size: int) -> None:
        self.rows.append((Event.SEGMENT_ALLOC, address, size, 0, -1))

    def trace(self, before: int = 0) -> Trace:
        kind, address, size, stream, tag = (list(column) for column in zip(*self.rows, strict=True))
        return Trace.from_columns(
            kind=kind,
            address=address,
            size=size,
            stream=stream,
            tag=tag,
            time=[max(0, 10 * (row - before)) for row in range(len(self.rows))],
            before=before,
            tags=TAGS,
        )


def train(iterations: int, *, keep_losses_every: int = 0, keep_activations: bool = False) -> Trace:
    """Return the trace of a loop with parameters, gradients and optimizer state.

    Args:
        iterations: number of iterations, each of which begins with a mark.
        keep_losses_every: keep the loss of every such iteration; 0: of none.
        keep_activations: whether iterations keep their activation.
    """
    loop = Loop()
    loop.alloc(4096)
    gradient = None
    batches: list[int] = []
    for number in range(iterations):
        loop.mark()
        batches.append(loop.alloc(800))
        if len(batches) > 2:  # the loader has two buffers
            loop.free(batches.pop(0))
        activation, loss = loop.alloc(2048, ACTIVATION), loop.alloc(4, LOSS)
        if gradient is not None:
            loop.free(gradient)
        gradient = loop.alloc(4096, GRADIENT)
        if not keep_activations:
            loop.free(activation)
        if number == 0:
            loop.alloc(8192, STATE)
        if not keep_losses_every or number % keep_losses_every:
            loop.free(loss)
    return loop.trace(before=1)
