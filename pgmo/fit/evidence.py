"""What one rehearsal tells about memory: its history, with each block's category.

rehearse(observer SCRIPT) --> Rehearsal        what the card had to give
                          --> evidence.json    addresses of parameters, gradients, states
                          --> history.pickle   every request and free of three steps
                                   |
                                   v
                          Evidence: a profile of all of it, one category for each block
"""

import json
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pgmo.cards import Card
from pgmo.errors import RehearsalError
from pgmo.fit.categories import categorise, dispensable, step_begins
from pgmo.fit.need import Way
from pgmo.profiler.importers.torch_memory.snapshot import read_torch_snapshot
from pgmo.profiler.iterations.from_trace import profile_of
from pgmo.profiler.profile import Profile
from pgmo.rehearsal import Rehearsal, rehearse

STEPS = 7
"""Iterations of a rehearsal: three in the history, two more recorded, one counted, the last one."""

TIMEOUT = 900.0
"""Seconds after which a rehearsal is given up."""


@dataclass(frozen=True, eq=False)
class Job:
    """What is rehearsed: a script, or a function.

    Attributes:
        command: a script and its arguments; "-m", a module and its arguments; or, of a function,
            "MODULE:FUNCTION" and a batch.
        call: whether it is a function.
        takes: whether the function takes the batch.
        vary: option of the script that says how large it is, with "{}" for the value; or None.
        variable: of the environment, that the script reads the value from; or None.
        python: with the CUDA build of torch; None for what rehearsals use by themselves.
        timeout: seconds for each rehearsal.

    Example:
        >>> Job(("train.py", "--epochs", "3"), vary="--batch-size {}").at(8)
        ('train.py', '--epochs', '3', '--batch-size', '8')
    """

    command: tuple[str, ...]
    call: bool = False
    takes: bool = False
    vary: str | None = None
    variable: str | None = None
    python: str | None = None
    timeout: float = TIMEOUT

    @property
    def varies(self) -> bool:
        """Whether there is something to vary."""
        return self.takes if self.call else bool(self.vary or self.variable)

    @property
    def option(self) -> str:
        """What varies is called: "--batch-size", or "batch"."""
        if self.vary is None:
            return "batch"
        return self.vary.partition("{}")[0].strip(" =") or "value"

    def environment(self, value: int | None) -> dict[str, str]:
        """Variables of the script at a value of what varies."""
        if self.variable is None or value is None:
            return {}
        return {self.variable: str(value)}

    def at(self, value: int | None) -> tuple[str, ...]:
        """The command at a value of what varies; as it was given for None."""
        if value is None:
            return self.command
        if self.call:
            return (*self.command[:1], str(value))
        if self.vary is None:
            return self.command
        return (*self.command, *(part.format(value) for part in self.vary.split()))


@dataclass(frozen=True, eq=False)
class Evidence:
    """One rehearsal, looked at.

    Attributes:
        rehearsal: what the card had to give, and how the script ended.
        value: of what varies; None where nothing does.
        way: who served the requests.
        change: what was changed in the script, or None.
        profile: all requests of its first steps, as one line; None where memory ran out before the
            first step had ended.
        category: of each of the profile's blocks, an index into `categories.NAMES`, shape (n,).
        known: plain values that the observer wrote down; see `pgmo.fit.observer`.
        steady: the profile of one iteration, with who asked for each block; only by way of pgmo.
        convolution: of each block, which one can do without it, or -1, shape (n,); empty for no
            such blocks. See `categories.dispensable`.
        begins: ticks of the profile at which the second and the third step begin; None where the
            history is shorter.
    """

    rehearsal: Rehearsal
    value: int | None
    way: Way
    change: str | None
    profile: Profile | None
    category: NDArray[np.int8]
    known: dict[str, Any]
    steady: Profile | None = None
    convolution: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    begins: tuple[int, int] | None = None

    @property
    def whole(self) -> bool:
        """Whether the history has the state's birth and the iterations that repeat."""
        return self.profile is not None and self.known.get("history", 0) > 1


def collect(
    job: Job,
    card: Card,
    *,
    value: int | None = None,
    way: Way = "default",
    change: str | None = None,
    work: bool = True,
) -> Evidence:
    """Rehearses a job once, and reads what there is to know.

    Args:
        job: what to rehearse.
        card: on which card.
        value: of what varies.
        way: who serves its requests.
        change: of the script; see `pgmo.fit.observer.changes`.
        work: count the arithmetic of one iteration. In that one gradients that are accumulated take
            more memory, so a proof leaves it out.

    Raises:
        RehearsalError: where the script cannot be rehearsed, ends with an error that is not about
            memory, does not train, or trains somewhere else than on the card.
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
            # Not the rehearsal's own profile: a session that saves plans later, and takes less.
            "steady": str(saved),
        }
        (place / "spec.json").write_text(json.dumps(spec))
        answer = rehearse(
            ["-m", "pgmo.fit.observer", str(place / "spec.json"), *job.at(value)],
            card=card,
            way=way,
            iterations=STEPS,
            timeout=job.timeout,
            environment=job.environment(value),
            python=job.python,
        )
        known = _read_json(place / "evidence.json")
        _check(job, answer, known)
        history = _read_history(place / "history.pickle", known)
        steady = Profile.load(saved) if saved.exists() else None
    answer = replace(answer, profile=None, plan=None)  # the files are gone
    return Evidence(
        rehearsal=answer,
        value=value,
        way=way,
        change=change,
        known=known,
        steady=steady,
        **history,
    )


def _check(job: Job, answer: Rehearsal, known: dict[str, Any]) -> None:
    """Finds out what makes an answer impossible."""
    name = " ".join(job.command[:2] if job.command[0] == "-m" else job.command[:1])
    if answer.failed:
        raise RehearsalError(
            f"{name} ended with exit code {answer.exit_code}, and not for want of memory: "
            f"{answer.reason or 'it gave no error'}"
        )
    if known.get("where") == "cpu":
        raise RehearsalError(
            f"{name} trains on the CPU: it has to choose the card, as by "
            "torch.cuda.is_available(), or by an option that you give it"
        )
    if not known and answer.fits:
        raise RehearsalError(
            f"{name} ended without a step of a torch optimizer, so nothing is known of its loop: "
            "rehearse what trains, or give a function to pgmo.fit()"
        )


def _read_json(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def _read_history(path: Path, known: dict[str, Any]) -> dict[str, Any]:
    """What the history tells: fields of `Evidence`."""
    if not path.exists() or path.stat().st_size == 0 or not known:
        return {"profile": None, "category": np.zeros(0, np.int8)}
    parts = [one for one in read_torch_snapshot(path) if one.trace.requests]
    if not parts:
        return {"profile": None, "category": np.zeros(0, np.int8)}
    # The card that has most of the requests; a loop that uses several is alike on each.
    trace = max((one.trace for one in parts), key=lambda one: one.requests)
    return {
        "profile": profile_of(trace, whole=True),
        "category": categorise(trace, known),
        "convolution": dispensable(trace, known),
        "begins": step_begins(trace, known),
    }
