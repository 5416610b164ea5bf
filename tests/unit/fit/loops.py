"""A simulated training loop: its history at each batch, and the evidence of its rehearsals."""

from dataclasses import dataclass, field

import numpy as np

from pgmo.cards import Card
from pgmo.fit.categories import categorise
from pgmo.fit.evidence import Evidence, Job
from pgmo.fit.laws.load import Load
from pgmo.profiler.caching.model import AllocatorSettings, simulate_profile
from pgmo.profiler.iterations.from_trace import profile_of
from pgmo.profiler.trace import Event, Trace
from pgmo.rehearsal import Rehearsal
from pgmo.rehearsal.environment import Way

MIB = 1 << 20
CONTEXT = 100 * MIB
LAYERS = 4
WEIGHT = 16 * MIB  # bytes of a layer's parameter, of its gradient, and of each of its two states
PER_SAMPLE = 5 * MIB  # bytes of activations of a layer for each sample


@dataclass
class History:
    """Events of an allocator that never returns an address twice."""

    rows: list[tuple[int, int, int]] = field(default_factory=list)
    next: int = 1 << 20

    def take(self, size: int) -> int:
        """Request a block, and return its address."""
        self.rows.append((Event.ALLOC, self.next, size))
        self.next += size + 512
        return self.next - size - 512

    def free(self, address: int) -> None:
        """Free the block at an address."""
        size = next(size for kind, at, size in self.rows[::-1] if kind == 0 and at == address)
        self.rows.append((Event.FREE_COMPLETED, address, size))

    def mark(self) -> None:
        """Mark the end of an optimizer step."""
        self.rows.append((Event.MARK, 0, 0))


def scratch(_batch: int) -> int:
    """Return the bytes of the workspace of a layer's backward pass."""
    return MIB


def history(batch: int, *, layers: int = LAYERS) -> tuple[Trace, dict[str, object]]:
    """Return three steps of a loop with Adam, and the facts that an observer would record."""
    steps = 3
    made = History()
    parameters = [made.take(WEIGHT) for _ in range(layers)]
    states: list[int] = []
    marked = []
    for step in range(steps):
        kept = [made.take(PER_SAMPLE * batch) for _ in range(layers)]
        gradients = []
        for at in reversed(range(layers)):
            made.free(made.take(scratch(batch)))
            gradients.append(made.take(WEIGHT))
            made.free(kept[at])
        if not states:
            states = [made.take(WEIGHT) for _ in range(2 * layers)]
        marked.append({"mark": step, "gradients": gradients})
        if step + 1 < steps:
            made.mark()
            for one in gradients:
                made.free(one)
    kind, address, size = (np.array(column) for column in zip(*made.rows, strict=True))
    trace = Trace.from_columns(kind=kind, address=address, size=size)
    known: dict[str, object] = {
        "parameters": parameters,
        "states": states,
        "marked": marked,
        "history": steps,
        "shapes": [[[2048, 2048], 4, True, True]] * layers,
        "blocks": [WEIGHT],
        "work": [["bfloat16", 1e12 * batch, 10 * MIB, 2], ["", 0.0, MIB * batch, 4]],
    }
    return trace, known


def evidence(batch: int, *, way: Way = "default", usable: int = 1 << 40) -> Evidence:
    """Return the evidence of a rehearsal of the loop; pgmo takes one page above the live peak."""
    trace, known = history(batch, layers=LAYERS)
    profile = profile_of(trace, whole=True)
    settings = AllocatorSettings.from_text(f"expandable_segments:{way == 'expandable'}")
    capacity = usable - CONTEXT
    if way == "pgmo":
        taken = profile.max_load() + 2 * MIB
        fits = taken <= capacity
    else:
        done = simulate_profile(profile, settings, iterations=1, capacity=capacity)
        taken, fits = done.peak_reserved, done.failed is None
    answer = Rehearsal(
        exit_code=0 if fits else 1,
        fits=fits,
        card_peak=min(taken + CONTEXT, usable),
        reserved_peak=taken,
        allocated_peak=profile.max_load(),
        context=CONTEXT,
        out_of_memory=None if fits else "CUDA out of memory",
        seconds=1.0,
    )
    if not fits:
        return Evidence(answer, batch, way, None, None, {})
    return Evidence(answer, batch, way, None, Load(profile, categorise(trace, known)), known)


def trial_and_error(usable: int, way: Way) -> int:
    """Return the largest batch that fits, by trials of batches 1, 2, 3 and so on."""
    batch = 0
    while evidence(batch + 1, way=way, usable=usable).rehearsal.fits:
        batch += 1
    return batch


def card(mib: int) -> Card:
    """Return a card with the given memory."""
    return Card("test", mib << 20, mib << 20, (8, 0), 100)


def job() -> Job:
    """Return a job whose batch size varies."""
    return Job(("train.py",), vary="--batch-size {}")
