"""Errors that pgmo raises intentionally.

A message states what happened, then the numbers, then what to do.
"""


class PgmoError(Exception):
    """Base class of all errors raised by pgmo."""


class FileError(PgmoError):
    """Error for a file that cannot be read or written, such as a missing or corrupted file."""


class ProfileError(PgmoError):
    """Error for a profile that is inconsistent or unsuitable for its use."""


class PlanError(PgmoError):
    """Error for an invalid or unsuitable plan, such as a plan with overlapping slots."""


class ProblemError(PgmoError, ValueError):
    """Error for a malformed packing problem, such as one with negative sizes or lifetimes."""


class SessionError(PgmoError):
    """Error for an unsupported use of a session, such as nested iterations."""


class AdapterError(PgmoError):
    """Error for an adapter that cannot be built, loaded or used, for example without a device."""


class OptionError(PgmoError, ValueError):
    """Error for an unknown option, or an option with an invalid value."""


class GraphError(PgmoError, ValueError):
    """Error for an inconsistent graph or schedule, or a model that cannot be captured."""


class BudgetError(PgmoError):
    """Error for a budget that cannot be met, or for a card or host with too little memory."""


class RehearsalError(PgmoError):
    """Error for a rehearsal that cannot run, or from which nothing can be predicted."""


class ShareError(PgmoError):
    """Error for a card that processes cannot share, for example without a broker."""
