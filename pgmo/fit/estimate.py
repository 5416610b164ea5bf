"""Names that were removed; they fail with what to use instead, for one version."""

from typing import NoReturn

from pgmo.errors import RehearsalError
from pgmo.removed import ESTIMATES

_NAMES = ("Estimate", "estimate", "estimate_script")


def __getattr__(name: str) -> NoReturn:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    raise RehearsalError(f"{__name__}.{name} is gone: {ESTIMATES}")
