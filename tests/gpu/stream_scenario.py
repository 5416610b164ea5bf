"""Blocks that another stream uses, with delays that reveal a reuse that is too early.

    python -m tests.gpu.stream_scenario --delay 100000000

    producer   fill x with i ── del x ── fill y with -1    y gets the slot of x unless stopped
                     └─ event ─┐
    consumer                   sleep ─────────── copy x      has to read i everywhere

Values are copied, because kernels of the stub compute nothing. The stub makes a copy when it is
submitted, even if its stream waits, so that a reuse that is too early shows in the address of y.

Prints one line of JSON with the fields of `Seen`.
"""

import argparse
import ctypes
import json
import os
from dataclasses import asdict, dataclass, field
from tempfile import TemporaryDirectory
from typing import Any

import torch

import pgmo
from tests.gpu.device import STUB

ELEMENTS = 1 << 20
DELAY = 100_000_000
"""Clock cycles that the consumer sleeps: about 50 ms, thousands of times the time to fill y."""


@dataclass
class Seen:
    """Observations of a run."""

    wrong: list[int] = field(default_factory=list)
    """Iterations whose copy of x is wrong."""
    reused: list[int] = field(default_factory=list)
    """Iterations in which y had the address of x before the consumer had read x."""
    phases: list[str] = field(default_factory=list)
    hits: list[int] = field(default_factory=list)
    delayed: list[int] = field(default_factory=list)
    """Iterations with a recorded stream and a delay."""


def stream_pair(name: str) -> tuple[torch.cuda.Stream, torch.cuda.Stream]:
    """Return the producer and the consumer of a pair."""
    main = torch.cuda.default_stream()
    side = torch.cuda.Stream()
    pairs = {"main-side": (main, side), "side-main": (side, main)}
    return pairs[name] if name in pairs else (side, torch.cuda.Stream())


def play(pair: str, record_from: int, iterations: int = 14, delay: int = DELAY) -> Seen:
    """Run the scenario in a session.

    Args:
        pair: producer and consumer: "main-side", "side-main" or "side-other".
        record_from: first iteration that relies on `record_stream`; in earlier ones, the producer
            waits. With 0, the recording has the use, so that x gets no slot.
        iterations: number of iterations.
        delay: clock cycles that the consumer sleeps.
    """
    producer, consumer = stream_pair(pair)
    expected = torch.arange(iterations).float()[:, None].expand(-1, ELEMENTS).contiguous()
    values, spoiled = expected.cuda(), torch.full((ELEMENTS,), -1.0).cuda()
    copies = torch.zeros(iterations, ELEMENTS).cuda()
    torch.cuda.synchronize()
    seen = Seen()
    # A saved plan serves at once, and has slots for all blocks that may have one.
    with (
        TemporaryDirectory() as plans,
        pgmo.optimize(device="cuda", tags=False, save=plans) as session,
    ):
        for index in range(iterations):
            recorded = index >= record_from
            phase = session.phase.value
            with session.iteration():
                arguments = copies[index], values[index], spoiled
                if turn(*arguments, producer, consumer, delay if recorded else 0):
                    seen.reused.append(index)
            seen.phases.append(phase)
            if recorded:
                seen.delayed.append(index)
        torch.cuda.synchronize()
        seen.hits = [one.hits for one in session.history]
    right = (copies.cpu() == expected).all(dim=1).tolist()
    seen.wrong = [index for index in range(iterations) if not right[index]]
    return seen


def turn(
    copy: torch.Tensor,
    value: torch.Tensor,
    spoiled: torch.Tensor,
    producer: torch.cuda.Stream,
    consumer: torch.cuda.Stream,
    delay: int,
) -> bool:
    """Run an iteration; with a delay, only the allocator prevents a reuse that is too early.

    Returns:
        Whether y has the address of x while x is being read and the producer does not wait.
    """
    with torch.cuda.stream(producer):
        x = torch.empty(ELEMENTS, device="cuda").copy_(value)
    consumer.wait_stream(producer)
    with torch.cuda.stream(consumer):
        if delay:
            sleep(consumer, delay)
        copy.copy_(x)
    if delay:
        x.record_stream(consumer)
    else:
        producer.wait_stream(consumer)
    read = consumer.record_event()
    address = x.data_ptr()
    with torch.cuda.stream(producer):
        del x
        y = torch.empty(ELEMENTS, device="cuda")
        goes_on = producer.record_event().query()
        reused = y.data_ptr() == address and bool(delay) and goes_on and not read.query()
        y.copy_(spoiled)
        del y
    return reused


def sleep(stream: torch.cuda.Stream, cycles: int) -> None:
    """Keep the current stream busy for so many cycles, or on the stub until a wait for it."""
    if STUB:
        stub = ctypes.CDLL(os.environ["PGMO_FAKECUDA"])
        stub.fakecuda_hold(ctypes.c_void_p(stream.cuda_stream))
    else:
        torch.cuda._sleep(cycles)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pair", default="main-side")
    parser.add_argument("--record-from", type=int, default=8)
    parser.add_argument("--delay", type=int, default=DELAY)
    arguments = parser.parse_args()
    seen: dict[str, Any] = asdict(
        play(arguments.pair, arguments.record_from, delay=arguments.delay)
    )
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
