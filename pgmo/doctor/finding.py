"""One problem on a machine."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """Problem that limits pgmo on this machine.

    Args:
        severity: "error" if pgmo cannot serve a framework because of the problem, else "warning".
        what: the finding, with numbers.
        remedy: action for the user.
    """

    severity: Literal["error", "warning"]
    what: str
    remedy: str
