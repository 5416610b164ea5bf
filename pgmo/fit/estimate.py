"""Names that were removed; they fail with what to use instead, for one version."""

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
