"""Errors that pgmo raises intentionally.

A message states what happened, then the numbers, then what to do.
"""


class PgmoError(Exception):
    """Base class of all errors raised by pgmo."""


class FileError(PgmoError):
    """Error for a file that cannot be read or written: altered, invalid or of another version."""


class ProfileError(PgmoError):
    """Error for a profile that is inconsistent or unsuitable for its use."""


class PlanError(PgmoError):
    """Error for an invalid plan: overlapping or misaligned blocks, or slots outside the arena."""


class ProblemError(PgmoError, ValueError):
    """Error for a malformed packing problem: negative sizes, sums beyond 2**62, ends too early."""


class SessionError(PgmoError):
    """Error for an unsupported use of a session: nested, stepped from outside or re-entered."""


class AdapterError(PgmoError):
    """Error for an adapter that cannot be built, loaded or installed, or lacks device or memory."""


class OptionError(PgmoError, ValueError):
    """Error for an unknown option, or an option with an invalid value."""


class GraphError(PgmoError, ValueError):
    """Error for an inconsistent graph of a step, or a model that cannot be captured as a graph."""


class BudgetError(PgmoError):
    """Error for an impossible budget; the message states the smallest possible budget."""


class RehearsalError(PgmoError):
    """Error for a script that cannot be rehearsed here; the message states the obstacle."""


class ShareError(PgmoError):
    """Error for a card that cannot be shared: no broker, or an invalid message from a broker."""
