"""Values of options, looked at before any work."""

from pgmo.errors import OptionError


def check_number(option: str, value: float, least: float, most: float | None = None) -> None:
    """Checks that a number lies in a range.

    Raises:
        OptionError: when it does not.
    """
    if not (value >= least and (most is None or value <= most)):  # so that nan is refused
        limit = f"{least} at least" if most is None else f"from {least} to {most}"
        raise OptionError(f"{option} must be {limit}, not {value}")
