"""Every error that pgmo raises on purpose.

A message says what happened, gives the numbers, and says what to do next, in that order.
"""


class PgmoError(Exception):
    """Base of all errors raised by pgmo.

    Example:
        >>> try:
        ...     raise PlanError("the plan overlaps itself")
        ... except PgmoError as error:
        ...     print(error)
        the plan overlaps itself
    """


class FileError(PgmoError):
    """A profile or plan file cannot be read or written: truncated, altered, newer, absurd."""


class ProfileError(PgmoError):
    """A profile contradicts itself, or does not serve the purpose asked of it."""


class PlanError(PgmoError):
    """A plan is invalid: overlapping blocks, wrong alignment, or beyond its arena."""


class ProblemError(PgmoError, ValueError):
    """A packing problem is malformed: negative sizes, ends before starts, sums beyond 2**62."""


class SessionError(PgmoError):
    """A session is used in a way it cannot serve: nested, stepped from outside, re-entered."""


class AdapterError(PgmoError):
    """The adapter for a framework cannot be built, loaded or installed on this machine."""


class OptionError(PgmoError, ValueError):
    """An option has a value that cannot be used."""


class GraphError(PgmoError, ValueError):
    """The graph of a step contradicts itself, or a model cannot be captured as one."""


class BudgetError(PgmoError):
    """A budget cannot be met: the message says the least peak that can be reached."""


class RehearsalError(PgmoError):
    """A script cannot be rehearsed here: the message says what is missing, or in the way."""


class ShareError(PgmoError):
    """A card cannot be shared: there is no broker, or what came is no message of one."""
