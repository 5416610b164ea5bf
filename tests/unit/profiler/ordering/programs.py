"""Programs on a few streams as events, and a slow reference for the order of their blocks."""

import random
from dataclasses import dataclass, field

import numpy as np

from pgmo.profiler.recording import EVENT, FREE, REQUEST, STEP

RECORD, WAIT, STREAM_DONE, LOST = 4, 5, 6, 9


@dataclass
class Script:
    """A recording that is built event by event."""

    rows: list[tuple[int, int, int, int]] = field(default_factory=list)
    blocks: int = 0

    def request(self, size: int, stream: int) -> int:
        self.rows.append((REQUEST, self.blocks, size, stream))
        self.blocks += 1
        return self.blocks - 1

    def free(self, block: int) -> None:
        self.rows.append((FREE, block, 0, 0))

    def record(self, event: int, stream: int) -> None:
        self.rows.append((RECORD, 0, event, stream))

    def wait(self, event: int, stream: int) -> None:
        self.rows.append((WAIT, 0, event, stream))

    def synchronize(self, stream: int) -> None:
        self.rows.append((STREAM_DONE, 0, 0, stream))

    def lose(self) -> None:
        self.rows.append((LOST, 0, 0, 0))

    def step(self) -> None:
        self.rows.append((STEP, 0, 0, 0))

    def events(self) -> np.ndarray:
        out = np.zeros(len(self.rows), EVENT)
        for event, (kind, block, value, stream) in zip(out, self.rows, strict=True):
            event["kind"], event["block"], event["bytes"] = kind, block, value
            event["stream"], event["tag"] = stream, -1
        return out


def at_random(seed: int, iterations: int = 6, streams: int = 3) -> Script:
    """Return a random iteration, repeated, with blocks that wrap and waits for older events."""
    draw = random.Random(seed)
    ticks = draw.randint(4, 12)
    acts: list[tuple[str, int, int]] = []
    lives = [draw.randint(1, ticks + ticks // 2) for _ in range(ticks)]
    size = [draw.randint(1, 9) for _ in range(ticks)]
    stream = [draw.randrange(streams) for _ in range(ticks)]
    for tick in range(ticks):
        for _ in range(draw.randint(0, 2)):
            what = draw.choice(
                ("record", "wait", "wait", "sync") if draw.random() < 0.3 else ("wait",)
            )
            acts.append((what, tick, draw.randrange(streams)))
            acts.append(("record", tick, draw.randrange(streams)))
    script = Script()
    live: dict[int, list[int]] = {}
    clock = number = 0
    recorded: list[int] = []
    choice = [draw.randint(0, 3) for _ in acts]
    for _ in range(iterations):
        for tick in range(ticks):
            for block in live.pop(clock, []):
                script.free(block)
            for act, (what, at, one) in enumerate(acts):
                if at != tick:
                    continue
                if what == "record":
                    script.record(number, one)
                    recorded.append(number)
                    number += 1
                elif what == "wait" and len(recorded) > choice[act]:
                    script.wait(recorded[-1 - choice[act]], one)
                elif what == "sync":
                    script.synchronize(one)
            block = script.request(size[tick], stream[tick])
            live.setdefault(clock + lives[tick], []).append(block)
            clock += 1
        script.step()
    return script


def known(script: Script) -> list[set[int]]:
    """Return for each request the blocks whose last use ends before it in every execution.

    The work of a stream is a list of pieces, its requests and waits. For each stream and event, the
    reference keeps the set of all pieces that come before it.
    """
    given: dict[int, list[int]] = {}  # pieces of each stream
    behind: dict[int, set[int]] = {}  # pieces before the next piece of a stream
    at_event: dict[int, set[int]] = {}
    host: set[int] = set()
    last: dict[int, int] = {}  # last piece before the free of each block
    owner: list[int] = []
    over: list[set[int]] = []
    piece = 0
    for kind, block, value, stream in script.rows:
        if kind in (REQUEST, WAIT):
            behind.setdefault(stream, set()).update(host)
            if kind == WAIT:
                behind[stream] |= at_event.get(value, set())
            else:
                done = behind[stream] | set(given.get(stream, []))
                over.append({one for one, work in last.items() if work in done})
                owner.append(stream)
            given.setdefault(stream, []).append(piece)
            piece += 1
        elif kind == FREE:
            last[block] = given[owner[block]][-1]
        elif kind == RECORD:
            before = behind.get(stream, set()) | host
            at_event[value] = before | set(given.get(stream, []))
        elif kind == STREAM_DONE:
            host |= behind.get(stream, set()) | set(given.get(stream, []))
    return over
