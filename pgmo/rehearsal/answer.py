"""What a rehearsal answers."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Rehearsal:
    """One run of a script on a card that is not there. Sizes are in bytes.

    Attributes:
        exit_code: of the script; 0 where it was stopped after the iterations that were asked for,
            128 plus the signal where one ended it.
        fits: whether it ran to its end, and memory did not run out. It may run out and be caught:
            see `notes`.
        card_peak: most that was taken of a card at once, its context included.
        reserved_peak: most that the allocator held, as torch counts it; of the fullest card.
        allocated_peak: most that live tensors held, as torch counts it; of the fullest card.
        context: how much of `card_peak` is the context, which is an estimate.
        out_of_memory: torch's message and the line that asked, where memory ran out in the end.
        error: what else ended the script, as Python shows it; None where nothing did.
        reason: the same in a line: the error, and the one that began it.
        iterations: steps of the optimizers that ended; None where there was none.
        seconds: that it took here; they say nothing of time on a card.
        profile: file of the profile; None where none was asked for, or none came about.
        plan: file of the plan; the same.
        notes: what of the answer is uncertain, a sentence each.
        rank: of which this is the answer, in a world of several; else 0.
        ranks: answers of all ranks that were rehearsed, in a world of several.

    Example:
        >>> answer = Rehearsal(0, True, 3 << 30, 2 << 30, 1 << 30)
        >>> answer.fits, answer.failed
        (True, False)
    """

    exit_code: int
    fits: bool
    card_peak: int
    reserved_peak: int
    allocated_peak: int
    context: int = 0
    out_of_memory: str | None = None
    error: str | None = None
    reason: str | None = None
    iterations: int | None = None
    seconds: float = 0.0
    profile: Path | None = None
    plan: Path | None = None
    notes: tuple[str, ...] = ()
    rank: int = 0
    ranks: tuple["Rehearsal", ...] = ()

    @property
    def failed(self) -> bool:
        """Whether the script ended for another reason than memory, so that it answers nothing."""
        return not self.fits and self.out_of_memory is None

    def to_fields(self) -> dict[str, Any]:
        """All of it, for JSON.

        Example:
            >>> Rehearsal(0, True, 3, 2, 1).to_fields()["card_peak"]
            3
        """
        found = {one.name: getattr(self, one.name) for one in fields(self)}
        for name in ("profile", "plan"):
            found[name] = None if found[name] is None else str(found[name])
        return found | {"ranks": [one.to_fields() for one in self.ranks]}


def read_answer(found: Mapping[str, Any], *, exit_code: int, seconds: float) -> Rehearsal:
    """The answer from what the child has written.

    Args:
        found: fields of the result file.
        exit_code: of the child.
        seconds: that it took.
    """
    known = {one.name for one in fields(Rehearsal)}
    kept = {name: value for name, value in found.items() if name in known}
    for name in ("profile", "plan"):
        kept[name] = Path(kept[name]) if kept.get(name) else None
    kept["notes"] = tuple(kept.get("notes", ()))
    ran_out = kept.get("out_of_memory") is not None
    fits = exit_code == 0 and not ran_out
    return Rehearsal(**kept | {"exit_code": exit_code, "fits": fits, "seconds": seconds})


def of_ranks(answers: tuple[Rehearsal, ...]) -> Rehearsal:
    """One answer for all ranks: that of the rank that needs most, or that does not fit."""
    if len(answers) == 1:
        return answers[0]
    worst = max(answers, key=lambda one: (not one.fits, one.card_peak))
    notes = tuple(dict.fromkeys(note for one in answers for note in one.notes))
    return replace(worst, notes=notes, ranks=answers)
