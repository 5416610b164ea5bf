"""Result of a rehearsal."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Rehearsal:
    """Result of one run of a script on simulated cards. Sizes are in bytes.

    Each peak of a card is the maximum over all cards.

    Attributes:
        exit_code: exit code of the script; 0 if the script was stopped after the requested
            iterations, 128 plus the signal's number if a signal ended the script.
        fits: whether the exit code is 0 and no out-of-memory error ended the script. `notes` counts
            the out-of-memory errors that the script has caught.
        card_peak: peak bytes taken of a card, including the context.
        reserved_peak: peak bytes that torch reports as reserved.
        allocated_peak: peak bytes that torch reports as allocated.
        context: bytes of the context in `card_peak`: measured earlier by `pgmo doctor`, otherwise
            estimated.
        pinned_peak: peak bytes of the host that torch has pinned, its cache included.
        out_of_memory: torch's message and the requesting line, if an out-of-memory error ended the
            script; else None.
        error: traceback of any other error that ended the script; None if there was none.
        reason: `error` in one line, with its first cause. If a script ends with an exit code above
            0 and without an error, the last line of its output. Else None.
        iterations: number of finished iterations; None if there was none.
        seconds: duration on this machine; unrelated to the time on a card.
        profile: file of the profile; None if none was requested or made.
        plan: file of the plan; None if none was requested or made.
        notes: uncertainties of the result, one sentence each.
        rank: rank of the rehearsed process; 0 for a job of one process.
    """

    exit_code: int
    fits: bool
    card_peak: int
    reserved_peak: int
    allocated_peak: int
    context: int = 0
    pinned_peak: int = 0
    out_of_memory: str | None = None
    error: str | None = None
    reason: str | None = None
    iterations: int | None = None
    seconds: float = 0.0
    profile: Path | None = None
    plan: Path | None = None
    notes: tuple[str, ...] = ()
    rank: int = 0

    @property
    def failed(self) -> bool:
        """Return whether the script failed for another reason than memory."""
        return not self.fits and self.out_of_memory is None

    def to_fields(self) -> dict[str, Any]:
        """Return all fields as plain values for JSON."""
        found = {one.name: getattr(self, one.name) for one in fields(self)}
        for name in ("profile", "plan"):
            found[name] = None if found[name] is None else str(found[name])
        return found


def read_answer(found: Mapping[str, Any], *, exit_code: int, seconds: float) -> Rehearsal:
    """Create the result from the fields that the child process wrote."""
    known = {one.name for one in fields(Rehearsal)}
    kept = {name: value for name, value in found.items() if name in known}
    for name in ("profile", "plan"):
        kept[name] = Path(kept[name]) if kept.get(name) else None
    kept["notes"] = tuple(kept.get("notes", ()))
    ran_out = kept.get("out_of_memory") is not None
    fits = exit_code == 0 and not ran_out
    return Rehearsal(**kept | {"exit_code": exit_code, "fits": fits, "seconds": seconds})
