"""Recorded events, and their division into iterations.

events      R0 R1 F0 R2 | R3 F1 R4 S4 F3 R5 |       R request, F free, S shared, | step
                                                    (synchronizations: see pgmo.profiler.ordering)
requests     0  1     2    3     4        5
iteration   [---- 0 ----][------ 1 -------)
gone at     block 0: 2   block 1: 4   block 3: 5    the next request after the free
shared      block 4                                 also used on another stream
"""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pgmo.errors import ProfileError
from pgmo.profiler.ordering.order import LOST
from pgmo.profiler.ordering.recorded import numbered, split_rows

EVENT = np.dtype(
    [
        ("kind", "u1"),
        ("in_gap", "u1"),
        ("thread", "u2"),
        ("tag", "i4"),
        ("block", "u4"),
        ("reserved", "u4"),
        ("bytes", "i8"),
        ("stream", "u8"),
    ]
)
"""Layout of one recorded event, 32 bytes. `block` is the number of the block's request."""

REQUEST, FREE, STEP, STREAM = 0, 1, 2, 3
"""Values of `kind`. A step ends an iteration. A stream event: another stream uses the block. Higher
values are those of `pgmo.profiler.ordering`; `bytes` is then the number of a CUDA event, if any."""

ALIVE = -1
"""`gone` of a block that is not freed before the last step."""


@dataclass(frozen=True, eq=False)
class Iteration:
    """Requests between two steps, or before the first; columns of shape (n,), in order.

    Args:
        index: number of the iteration in its recording.
        first: number of its first request since recording began.
        size: bytes requested.
        stream: stream of each request.
        thread: small number of the requesting thread, 0 = first seen in the recording.
        tag: index given by the tagger, -1 for none.
        gone: number, since recording began, of the request before which the block was freed; or
            `ALIVE`.
        shared: whether the block was used on another stream before the last step.
        in_gap: whether the framework could serve the request from cached memory that is otherwise
            idle.
        rows: synchronizations between streams, numbered as in `pgmo.profiler.ordering.recorded`;
            None if there were none.
    """

    index: int
    first: int
    size: NDArray[np.int64]
    stream: NDArray[np.uint64]
    thread: NDArray[np.uint32]
    tag: NDArray[np.int32]
    gone: NDArray[np.int64]
    shared: NDArray[np.bool_]
    in_gap: NDArray[np.bool_]
    rows: NDArray[np.void] | None = None

    def __len__(self) -> int:
        return len(self.size)

    def same_requests(self, other: "Iteration") -> bool:
        """Return whether both iterations have equal sizes on equal streams in the same order."""
        return np.array_equal(self.size, other.size) and np.array_equal(self.stream, other.stream)

    def part(self, chosen: NDArray[np.bool_] | NDArray[np.int64]) -> "Iteration":
        """Return the requests chosen by a mask or by rows. The values of `gone` do not change."""
        names = ("size", "stream", "thread", "tag", "gone", "shared", "in_gap")
        kept = {name: getattr(self, name)[chosen] for name in names}
        return replace(self, rows=None, **kept)


def split(events: NDArray[np.void]) -> list[Iteration]:
    """Split events into complete iterations. Events after the last step are dropped.

    Args:
        events: array of dtype `EVENT`, shape (events,), in order of occurrence.

    Raises:
        ProfileError: when the events contradict each other.

    Example:
        >>> events = make_events([("request", 64), ("step",), ("request", 32), ("step",)])
        >>> [iteration.size.tolist() for iteration in split(events)]
        [[64], [32]]
    """
    events = np.asarray(events)
    if events.dtype != EVENT:
        raise ProfileError(f"events have dtype {events.dtype}; they must have {EVENT}")
    kind = events["kind"]
    unknown = np.flatnonzero(kind > LOST)
    if unknown.size:
        raise ProfileError(f"event {unknown[0]} has kind {kind[unknown[0]]}; record again")
    steps = np.flatnonzero(kind == STEP)
    complete = steps[-1] + 1 if steps.size else 0
    events, kind = events[:complete], kind[:complete]
    is_request = kind == REQUEST
    requests = events[np.flatnonzero(is_request)]
    served = np.cumsum(is_request)  # Requests served up to and including each event.
    _check_requests(requests)
    frees = np.flatnonzero(kind == FREE)
    gone = _gone(events["block"][frees], served[frees], len(requests))
    marks = np.flatnonzero(kind == STREAM)
    used = events["block"][marks]
    _check_requested(used, served[marks], "used on a stream")
    shared = np.zeros(len(requests), np.bool_)
    shared[used] = True
    thread = _small_numbers(requests["thread"])
    edges = np.concatenate(([0], served[steps])).astype(np.int64)
    rows = split_rows(numbered(events, served), edges)
    return [
        Iteration(
            index=index,
            first=low,
            size=requests["bytes"][low:high].copy(),
            stream=requests["stream"][low:high].copy(),
            thread=thread[low:high],
            tag=requests["tag"][low:high].copy(),
            gone=gone[low:high],
            shared=shared[low:high],
            in_gap=requests["in_gap"][low:high] != 0,
            rows=rows[index],
        )
        for index, (low, high) in enumerate(pairwise(edges.tolist()))
    ]


def make_events(rows: list[tuple[str, int] | tuple[str]]) -> NDArray[np.void]:
    """Make events from tuples, for tests.

    Args:
        rows: `("request", bytes)`, `("free", block)`, `("shared", block)` and `("step",)`.
    """
    events = np.zeros(len(rows), EVENT)
    events["tag"] = -1
    kinds = {"request": REQUEST, "free": FREE, "step": STEP, "shared": STREAM}
    blocks = 0
    for event, (kind, *value) in zip(events, rows, strict=True):
        event["kind"] = kinds[kind]
        if kind == "request":
            event["block"], event["bytes"] = blocks, value[0]
            blocks += 1
        elif value:
            event["block"] = value[0]
    return events


def _check_requests(requests: NDArray[np.void]) -> None:
    wrong = np.flatnonzero(requests["block"] != np.arange(len(requests)))
    if wrong.size:
        row = int(wrong[0])
        raise ProfileError(
            f"request {row} is recorded as block {requests['block'][row]}: events are missing; "
            "record again"
        )
    empty = np.flatnonzero(requests["bytes"] <= 0)
    if empty.size:
        row = int(empty[0])
        raise ProfileError(f"request {row} is of {requests['bytes'][row]} bytes; record again")


def _check_requested(blocks: NDArray[np.uint32], served: NDArray[np.int64], what: str) -> None:
    early = np.flatnonzero(blocks >= served)
    if early.size:
        block = blocks[early[0]]
        raise ProfileError(f"block {block} is {what} before it is requested; record again")


def _gone(
    blocks: NDArray[np.uint32], served: NDArray[np.int64], requests: int
) -> NDArray[np.int64]:
    """Return the number of requests served when each request's block was freed, or `ALIVE`."""
    _check_requested(blocks, served, "freed")
    frees = np.bincount(blocks, minlength=1)
    if frees.max() > 1:
        raise ProfileError(f"block {np.argmax(frees > 1)} is freed twice; record again")
    gone = np.full(requests, ALIVE, np.int64)
    gone[blocks] = served
    return gone


def _small_numbers(thread: NDArray[np.uint16]) -> NDArray[np.uint32]:
    """Renumber the threads in order of first appearance."""
    counts = np.bincount(thread, minlength=1)
    present = np.flatnonzero(counts)
    first = [int(np.argmax(thread == number)) for number in present]  # There are few threads.
    rank = np.zeros(len(counts), np.uint32)
    rank[present[np.argsort(first, kind="stable")]] = np.arange(len(present), dtype=np.uint32)
    return rank[thread]
