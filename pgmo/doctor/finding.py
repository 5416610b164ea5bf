"""Something that is in the way."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """One thing that limits pgmo on this machine.

    Args:
        severity: "error" where a framework cannot be served because of it, "warning" where it can.
        what: what was found, with the numbers.
        remedy: what to do.
    """

    severity: Literal["error", "warning"]
    what: str
    remedy: str
