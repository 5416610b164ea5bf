"""Errors that pgmo raises intentionally.

A message states what happened, then the numbers, then what to do.
"""


class PgmoError(Exception):
    """Base class of all errors raised by pgmo."""


class FileError(PgmoError):
    """Error for a file or folder that is missing, invalid or unreadable, or cannot be written."""


class ProfileError(PgmoError):
    """Error for a profile that is inconsistent or unsuitable for its use."""


class PlanError(PgmoError):
    """Error for a plan that is invalid, such as overlapping blocks, or that cannot be replayed."""


class ProblemError(PgmoError, ValueError):
    """Error for an invalid packing problem, such as a negative size or a sum above 2**62 bytes."""


class SessionError(PgmoError):
    """Error for an unsupported use of a session, such as nested iterations or a second `with`."""


class AdapterError(PgmoError):
    """Error for an allocator adapter that cannot be built or installed, or for a missing device."""


class OptionError(PgmoError, ValueError):
    """Error for an unknown option, or an option with an invalid value."""


class GraphError(PgmoError, ValueError):
    """Error for an inconsistent graph of a step, or a model that cannot be captured as a graph."""


class BudgetError(PgmoError):
    """Error for a budget that cannot be met, or for a card or host with too little memory."""


class RehearsalError(PgmoError):
    """Error for a script that cannot be rehearsed, or whose memory cannot be predicted."""


class ShareError(PgmoError):
    """Error in sharing a card, such as a missing broker, a refusal or an invalid message."""
