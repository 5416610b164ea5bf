"""Removed names: for one version they raise an error that names the replacement."""

import sys
from typing import NoReturn

from pgmo.removed import ESTIMATES

_NAMES = ("Estimate", "estimate", "estimate_script")


def __getattr__(name: str) -> NoReturn:
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    raise ImportError(f"{__name__}.{name} was removed: {ESTIMATES}")


if __name__ == "__main__":
    sys.exit(f"pgmo.fit.estimate was removed: {ESTIMATES}")
