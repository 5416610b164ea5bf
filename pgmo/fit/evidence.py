"""Evidence from one rehearsal: its history, with the category of each block.

rehearse(observer SCRIPT) --> Rehearsal        bytes that the card provided
                          --> evidence.json    addresses of parameters, gradients, states
                          --> history.pickle   every request and free of three steps
                                   |
                                   v
                          Evidence: the profile of the history, with a category for each block
"""

import json
import tempfile
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from pathlib import Path
from typing import Any

from pgmo.cards import Card
from pgmo.errors import RehearsalError
from pgmo.fit.categories import categorise, dispensable, step_begins
from pgmo.fit.laws.growth import StepGrowth, growth_of
from pgmo.fit.laws.load import Load
from pgmo.profiler.importers.torch_memory.snapshot import read_torch_snapshot
from pgmo.profiler.iterations.from_trace import profile_of
from pgmo.profiler.profile import Profile
from pgmo.rehearsal import Rehearsal, rehearse
from pgmo.rehearsal.environment import Way

STEPS = 10
"""Iterations per rehearsal: 3 for the history, 2 for the profile, 1 for arithmetic, 4 for growth of
live memory. Fewer would not separate steady growth from chance."""

LONGER = 8.0
"""Seconds for which a rehearsal goes on after `STEPS` iterations, to see growth and evaluations."""

TIMEOUT = 900.0
"""Seconds after which a rehearsal is stopped with a `RehearsalError`."""


@dataclass(frozen=True, eq=False)
class Job:
    """Script or function to rehearse.

    Attributes:
        command: a script and its arguments; "-m", a module and its arguments; or, for a function,
            "MODULE:FUNCTION" and a batch.
        call: whether the job is a function.
        takes_batch: whether the function takes the batch as its argument.
        vary: option of the script for the batch, with "{}" for the value; or None.
        variable: environment variable from which the script reads the value; or None.
        python: interpreter with the CUDA build of torch; None for the default of rehearsals.
        timeout: seconds for each rehearsal.
        steps: optimizer steps of the whole job; None to read them from the script, if possible.
        samples: samples of the whole job. With a known batch, they give `samples / batch` steps.
    """

    command: tuple[str, ...]
    call: bool = False
    takes_batch: bool = False
    vary: str | None = None
    variable: str | None = None
    python: str | None = None
    timeout: float = TIMEOUT
    steps: float | None = None
    samples: float | None = None

    def steps_at(self, value: int | None) -> int | None:
        """Return the optimizer steps of the whole job; None without given steps or samples."""
        if self.samples is not None and value:
            return ceil(self.samples / value)
        return None if self.steps is None else ceil(self.steps)

    @property
    def varies(self) -> bool:
        """Return whether a value can be given to the job."""
        return self.takes_batch if self.call else bool(self.vary or self.variable)

    @property
    def option(self) -> str:
        """Name of the option that varies, such as "--batch-size"; "batch" without `vary`."""
        if self.vary is None:
            return "batch"
        return self.vary.partition("{}")[0].strip(" =") or "value"

    def environment(self, value: int | None) -> dict[str, str]:
        """Return the environment variable that sets the value, by name; {} if there is none."""
        if self.variable is None or value is None:
            return {}
        return {self.variable: str(value)}

    def at(self, value: int | None) -> tuple[str, ...]:
        """Return the command at a value; for None, the command as given."""
        if value is None:
            return self.command
        if self.call:
            return (*self.command[:1], str(value))
        if self.vary is None:
            return self.command
        return (*self.command, *(part.format(value) for part in self.vary.split()))


@dataclass(frozen=True, eq=False)
class Evidence:
    """Evidence from one rehearsal.

    Attributes:
        rehearsal: bytes that the card provided, and how the script ended.
        value: value of the option that varies; None if nothing varies.
        way: allocator that served the requests.
        change: change that was made in the script, or None.
        load: all requests of the first steps; None if the history is missing or empty.
        known: record of the observer as plain values; see `pgmo.fit.observer.watch`.
        steady: profile of one iteration, with the call stack of each block; only with pgmo.
    """

    rehearsal: Rehearsal
    value: int | None
    way: Way
    change: str | None
    load: Load | None
    known: dict[str, Any]
    steady: Profile | None = None

    @property
    def whole(self) -> bool:
        """Return whether the history is complete: three steps."""
        return self.load is not None and self.known.get("history", 0) > 1

    @property
    def trains(self) -> bool:
        """Return whether the observer has recorded an optimizer step."""
        return bool(self.known)

    @cached_property
    def growth(self) -> StepGrowth | None:
        """Growth of live memory from step to step; None if there is none."""
        return growth_of(self.known)

    @property
    def is_past_work(self) -> bool:
        """Return whether the iteration that counts arithmetic has ended."""
        return "early_peak" in self.known

    @property
    def allocated_peak(self) -> int:
        """Peak of the live bytes in the whole rehearsal."""
        return max(self.rehearsal.allocated_peak, int(self.known.get("early_peak", 0)))


def collect(
    job: Job,
    card: Card,
    *,
    value: int | None = None,
    way: Way = "default",
    change: str | None = None,
    work: bool = True,
    longer: float = LONGER,
    trains: bool = True,
) -> Evidence:
    """Rehearse a job once and read its history.

    Args:
        job: the job to rehearse.
        card: the simulated card.
        value: value of the option that varies.
        way: allocator that serves the requests.
        change: change of the script; see `pgmo.fit.observer.changes`.
        work: whether to count the arithmetic of one iteration. Counting takes more memory if
            gradients accumulate.
        longer: seconds for which the script continues after `STEPS` iterations.
        trains: whether a script without optimizer steps is an error. Otherwise the evidence of the
            script has only the `rehearsal`.

    Raises:
        RehearsalError: if the script cannot be rehearsed, trains on the CPU, makes no step, or ends
            with an error that is not about memory.
        AdapterError: if there is no compiler for the stub.
    """
    with tempfile.TemporaryDirectory(prefix="pgmo-fit-") as folder:
        place = Path(folder)
        saved = place / "steady.pgmoprof"
        spec: dict[str, Any] = {
            "evidence": str(place / "evidence.json"),
            "snapshot": str(place / "history.pickle"),
            "change": change,
            "call": job.call,
            "work": work,
            # The observer saves this profile, not the session. A session that saves its plans uses
            # them without a check whether they pay, and could take less memory.
            "steady": str(saved),
        }
        (place / "spec.json").write_text(json.dumps(spec))
        answer = rehearse(
            ["-m", "pgmo.fit.observer", str(place / "spec.json"), *job.at(value)],
            card=card,
            way=way,
            iterations=STEPS,
            longer=longer,
            timeout=job.timeout,
            environment=job.environment(value),
            python=job.python,
        )
        record = place / "evidence.json"
        known = json.loads(record.read_text()) if record.exists() else {}
        if known and (steps := job.steps_at(value)) is not None:
            known["planned"] = [steps, True]
        _check(job, answer, known, trains=trains)
        load = _read_history(place / "history.pickle", known)
        steady = Profile.load(saved) if saved.exists() else None
    return Evidence(answer, value, way, change, load, known, steady)


def _check(job: Job, answer: Rehearsal, known: dict[str, Any], *, trains: bool) -> None:
    """Raise `RehearsalError` if the script failed, used the CPU, or should train and did not."""
    name = " ".join(job.command[:2] if job.command[0] == "-m" else job.command[:1])
    if answer.failed:
        raise RehearsalError(
            f"{name} failed with exit code {answer.exit_code}: "
            f"{answer.reason or 'it printed no error'}"
        )
    if known.get("where") == "cpu":
        raise RehearsalError(
            f"{name} trains on the CPU, so its memory on a card is unknown: choose the device "
            "with torch.cuda.is_available(), or give the script's option for the device"
        )
    if not known and answer.fits and trains:
        raise RehearsalError(
            f"{name} ended without a step of a torch optimizer in its own process, so its loop is "
            "unknown: name a script that trains. For inference, use pgmo rehearse, or --vary with "
            "two options"
        )


def _read_history(path: Path, known: dict[str, Any]) -> Load | None:
    """Return the load of the history; None if the history is missing or empty."""
    if not known or not path.exists() or path.stat().st_size == 0:
        return None
    traces = [one.trace for one in read_torch_snapshot(path) if one.trace.requests]
    if not traces:
        return None
    # Use the card with most of the requests. A loop on several cards does the same on each card.
    trace = max(traces, key=lambda one: one.requests)
    return Load(
        replace(profile_of(trace, whole=True), trace=None),
        categorise(trace, known),
        dispensable(trace, known),
        step_begins(trace, known),
    )
