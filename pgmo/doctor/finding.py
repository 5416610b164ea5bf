"""One problem on a machine."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """Problem that limits pgmo on this machine.

    Args:
        severity: "error" if the problem may keep pgmo from serving a framework, else "warning".
        what: the finding, with numbers.
        remedy: action for the user.
    """

    severity: Literal["error", "warning"]
    what: str
    remedy: str
