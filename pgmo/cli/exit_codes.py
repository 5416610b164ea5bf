"""Exit codes of checks, and of programs that a command has started."""

CHECK_FAILED = 3
"""Exit code of a failed check."""

DOES_NOT_FIT = 4
"""Exit code for a script that does not fit on a card, or not to its end."""


def shell_code(returned: int) -> int:
    """Return a process's exit code as a shell does: 128 plus the signal's number after a signal."""
    return returned if returned >= 0 else 128 - returned
