"""Exit codes of checks, and of programs that a command has started."""

CHECK_FAILED = 3
"""Exit code of a failed check, or of a script that does not fit."""


def shell_code(returned: int) -> int:
    """Return a process's exit code as a shell does: 128 plus the signal's number after a signal.

    Example:
        >>> shell_code(3), shell_code(-9)
        (3, 137)
    """
    return returned if returned >= 0 else 128 - returned
