"""One training run to be made in a process of its own: what to do, and what came of it."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Mode = Literal["default", "pgmo"]
Lengths = Literal["fixed", "varying"]

STEADY_FROM: dict[Lengths, int] = {"fixed": 7, "varying": 12}
"""First iteration that counts for step times and steady memory, the same with and without pgmo.

A session records for at most five iterations; then come the first replay and, with varying lengths,
the longest one (iteration 10) and the plan made again for it.
"""


@dataclass(frozen=True)
class TrainingJob:
    """One training run that a worker is asked for.

    Args:
        network: name of the network.
        mode: "default" leaves PyTorch's allocator alone, "pgmo" trains in a session.
        iterations: steps to train.
        seed: seed of weights, data, dropout and lengths.
        lengths: whether sequences change their length.
        plan: file of a saved plan to start from, for mode "pgmo".
        save_as: path without suffix under which profile and plan are saved, for mode "pgmo".
        threads: threads for torch; 0 leaves torch's own choice.

    Example:
        >>> job = TrainingJob("gpt", "default")
        >>> TrainingJob.from_json(job.to_json()) == job
        True
    """

    network: str
    mode: Mode
    iterations: int = 20
    seed: int = 0
    lengths: Lengths = "fixed"
    plan: str | None = None
    save_as: str | None = None
    threads: int = 0

    @property
    def steady_from(self) -> int:
        """First iteration that counts for step times and steady memory."""
        return STEADY_FROM[self.lengths]

    def to_json(self) -> str:
        """The job as one line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "TrainingJob":
        """Reads what `to_json` wrote."""
        return cls(**json.loads(text))


@dataclass(frozen=True)
class PlanOutcome:
    """What a session planned and how often its plan was met.

    Args:
        blocks: blocks of the profile.
        max_load: lower bound of the arena, bytes.
        arena: size of the arena, bytes.
        gap: `arena / max_load - 1`.
        solver: the packer that found the plan.
        replans: plans made again because larger requests came.
        phases: what the session did in each iteration, in order: "record", "replay" and so on.
        hit_rate: share of requests served from slots, from the second replayed iteration on and,
            with varying lengths, from the one after the longest; None if there was none.
        hit_bytes_rate: the same share of bytes.
        summary: the session's own words.
    """

    blocks: int
    max_load: int
    arena: int
    gap: float
    solver: str
    replans: int
    phases: tuple[str, ...]
    hit_rate: float | None
    hit_bytes_rate: float | None
    summary: str


@dataclass(frozen=True)
class Outcome:
    """What a worker measured.

    Args:
        seconds: of each step.
        losses: of each step, as exact hexadecimal floats.
        digest: SHA-256 (hex) of all final weights and buffers.
        rss: peak resident memory of the whole process, bytes.
        rss_steady: the same over the steady iterations only; None where it cannot be told.
        faults: page faults of each step.
        threads: threads that torch used.
        torch: version of torch.
        planned: what pgmo did, in mode "pgmo".
    """

    seconds: tuple[float, ...]
    losses: tuple[str, ...]
    digest: str
    rss: int
    rss_steady: int | None
    faults: tuple[int, ...]
    threads: int
    torch: str
    planned: PlanOutcome | None = field(default=None)

    @property
    def results(self) -> tuple[tuple[str, ...], str]:
        """What has to be the same bit for bit: losses and final weights."""
        return self.losses, self.digest

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> "Outcome":
        """Makes an outcome of what JSON gave back."""
        values: dict[str, Any] = {**fields}
        for name in ("seconds", "losses", "faults"):
            values[name] = tuple(values[name])
        if values["planned"] is not None:
            planned = values["planned"]
            values["planned"] = PlanOutcome(**{**planned, "phases": tuple(planned["phases"])})
        return cls(**values)
