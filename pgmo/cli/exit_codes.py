"""Exit codes: of checks, and of programs that a command has started."""

CHECK_FAILED = 3
"""A check was made and failed, or a script does not fit."""


def shell_code(returned: int) -> int:
    """The exit code of a process as a shell says it: 128 and the number of the signal it ended by.

    Args:
        returned: as `subprocess` has it, minus the number of a signal.

    Example:
        >>> shell_code(3), shell_code(-9)
        (3, 137)
    """
    return returned if returned >= 0 else 128 - returned
