"""Programs with a known cause of their peak, written after public reports, and healthy ones.

Each has a mended form. `bench/causes.py` runs both on the stub runtime.
"""

from collections.abc import Callable
from dataclasses import dataclass

Run = Callable[[bool], object]


@dataclass(frozen=True)
class Program:
    """One program.

    Args:
        run: trains; given True, in the mended form. What it returns stays until the snapshot.
        cause: title of the advice that is expected first; "" for a healthy program.
        report: the public report that it was written after, or what it stands for.
        reserved: whether the fix lowers the peak of reserved bytes, not of allocated ones.
    """

    run: Run
    cause: str
    report: str
    reserved: bool = False


PROGRAMS: dict[str, Program] = {}
"""By name, in the order of their definition; filled by the modules of this package."""


def program(cause: str, report: str, *, reserved: bool = False) -> Callable[[Run], Run]:
    """Return a decorator that adds a program by the name of its function."""

    def add(run: Run) -> Run:
        PROGRAMS[run.__name__] = Program(run, cause, report, reserved)
        return run

    return add


def load() -> dict[str, Program]:
    """Return all programs; needs torch."""
    from faulty import (  # noqa: F401
        attention,
        evaluations,
        healthy,
        kept,
        losses,
        optimizers,
        second_models,
        settings,
        several_ranks,
        types_and_shapes,
    )

    return PROGRAMS
