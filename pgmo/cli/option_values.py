"""Checks of option values before a command starts to work."""

from pgmo.errors import OptionError


def check_number(option: str, value: float, least: float, most: float | None = None) -> None:
    """Check that a number lies in a range; raise `OptionError` if not."""
    if not (value >= least and (most is None or value <= most)):  # also rejects nan
        limit = f"at least {least}" if most is None else f"from {least} to {most}"
        raise OptionError(f"{option} must be {limit}, not {value}")
