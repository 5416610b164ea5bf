"""Exit codes of checks, and of programs that a command has started."""

CHECK_FAILED = 3
"""Exit code of a failed check."""

DOES_NOT_FIT = 4
"""Exit code for a script that runs out of a card's memory, at once or later."""


def shell_code(returned: int) -> int:
    """Return a process's exit code as shells do: 128 plus the number of a signal that ended it."""
    return returned if returned >= 0 else 128 - returned
