"""Exit codes of checks, and of programs that a command has started."""

CHECK_FAILED = 3
"""Exit code of a failed check."""

DOES_NOT_FIT = 4
"""Exit code of `pgmo fit` and `pgmo rehearse` for a script that does not fit on the card."""


def shell_code(returned: int) -> int:
    """Return the exit code that shells report: 128 plus the signal, if a signal ended a process."""
    return returned if returned >= 0 else 128 - returned
