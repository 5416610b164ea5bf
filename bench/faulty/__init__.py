"""Programs with a known cause of their peak, modelled on public reports, and healthy programs.

Each program with a cause also has a fixed form. `bench/causes.py` runs both on the stub runtime.
"""

from collections.abc import Callable
from dataclasses import dataclass

Run = Callable[[bool], object]


@dataclass(frozen=True)
class Program:
    """Training program, with or without a known cause of its peak.

    Args:
        run: function that trains. The argument selects the fixed form, and the result stays alive
            until the snapshot.
        cause: title of the advice that must come first; "" for a healthy program.
        report: public report on which the program is modelled, or a description.
        reserved: whether the fix lowers the peak of reserved bytes instead of allocated bytes.
    """

    run: Run
    cause: str
    report: str
    reserved: bool = False


PROGRAMS: dict[str, Program] = {}
"""Programs by name, in order of definition. Each module of this package adds its own."""


def program(cause: str, report: str, *, reserved: bool = False) -> Callable[[Run], Run]:
    """Return a decorator that adds a function to `PROGRAMS` under its name."""

    def add(run: Run) -> Run:
        PROGRAMS[run.__name__] = Program(run, cause, report, reserved)
        return run

    return add


def load() -> dict[str, Program]:
    """Import all modules of this package, and return the programs. Needs torch."""
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
