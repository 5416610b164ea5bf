"""Finds the verdict from what was counted and from the model of PyTorch's allocator.

no plan, given up, ...     "this program gains nothing here, because ..."
a plan, and a model        "7.60 GiB instead of 9.90 GiB (23 % less), from iteration 5 on"
a plan, and no model       what the arena has served, and why it is compared with nothing
pages alone                the comparison over the recorded iterations
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from pgmo.allocator.session.verdict.evidence import Evidence
from pgmo.allocator.session.verdict.plain import (
    UnmodelledError,
    of_plan,
    of_recording,
    settings_of,
)
from pgmo.allocator.session.verdict.verdict import Verdict, compared, percent
from pgmo.units import format_bytes

if TYPE_CHECKING:
    from pgmo.profiler.caching.settings import AllocatorSettings

_LEAST = 0.005
"""Share of the plain bytes: a saving below it is none that anybody would notice."""

_KEPT = 4
"""Answers of the model that are kept: of a plan, of a recording, and of those before them."""

_FEW = 4
"""Iterations in which no plan need be there yet: the first, two that agree, and one more."""


class Judge:
    """Judges a session, whenever that is asked for; the model runs once for each plan.

    Example:
        >>> from pgmo.allocator.session.statistics import Summary
        >>> print(Judge().judge(Evidence(Summary(2, 2, 0), "torch", "cpu")))
        this program gains nothing here, because 2 iterations are too few: a plan is made when two
        have agreed, and one more has shown what is freed later
    """

    def __init__(self) -> None:
        self._known: deque[tuple[object, int | UnmodelledError]] = deque(maxlen=_KEPT)

    def judge(self, evidence: Evidence) -> Verdict:
        """The verdict as things stand."""
        whole_run = tuple(self._whole_run(evidence))
        reason = _why_nothing(evidence)
        if reason:
            return Verdict(_nothing(reason), whole_run=whole_run)
        if not evidence.summary.since:
            return self._of_pages(evidence, whole_run)
        return self._of_arena(evidence, whole_run)

    # --- sentences ------------------------------------------------------------------------------

    def _of_arena(self, evidence: Evidence, whole_run: tuple[str, ...]) -> Verdict:
        """Of a session that has served from slots."""
        summary, plan = evidence.summary, evidence.plan
        assert plan is not None
        arena = min(plan.arena, summary.arena or plan.arena) - plan.spilled
        taken = arena + evidence.outside
        since = f"from iteration {summary.since} on"
        counted = f"counted: {format_bytes(arena)} of arena"
        if evidence.outside:
            counted += f" and at most {format_bytes(evidence.outside)} outside of it"
        # What had no slot may lie in the pages of slots that were empty.
        pages = max(evidence.pages, plan.max_load - plan.spilled)
        if evidence.pages and pages < taken:
            taken = pages
            counted += f", all in {format_bytes(pages)} of pages"
        try:
            plain = self._plain_of_plan(evidence)
        except UnmodelledError as missing:
            return Verdict(
                f"an arena of {format_bytes(arena)} has served {percent(summary.run_share)} of the "
                f"bytes of the whole run, {since}; nothing is said of savings, because {missing}",
                basis=f"{counted}; the blocks with slots take {format_bytes(plan.max_load)} at "
                "their peak, and no arena can be smaller",
                whole_run=whole_run,
                taken=taken,
                since=summary.since,
            )
        basis = (
            f"{counted}; modelled: {format_bytes(plain)} that PyTorch's own allocator would "
            "reserve for the same blocks, iteration after iteration"
        )
        sentence = f"{compared(taken, plain)}, {since}"
        if 1 - taken / plain < _LEAST:
            sentence = _nothing(
                f"plain PyTorch would reserve {format_bytes(plain)} for what takes "
                f"{format_bytes(taken)} here"
            )
        return Verdict(sentence, basis, whole_run, taken, plain, summary.since)

    def _of_pages(self, evidence: Evidence, whole_run: tuple[str, ...]) -> Verdict:
        """Of a session whose plan waits, or serves nothing that counts, while pages serve."""
        beginning, summary = evidence.beginning, evidence.summary
        why = f"the plan waits: {summary.waits}" if summary.waits else "its plan has served little"
        try:
            taken, plain = self._of_beginning(evidence)
        except UnmodelledError as missing:
            return Verdict(_nothing(f"{why}; and {missing}"), whole_run=whole_run)
        assert beginning is not None
        if 1 - taken / plain < _LEAST:
            sentence = _nothing(
                f"{why}; and of what pages serve, plain PyTorch would reserve "
                f"{format_bytes(plain)} for what takes {format_bytes(taken)} here"
            )
        else:
            sentence = f"{compared(taken, plain)}, by pages alone"
        basis = (
            f"counted: {format_bytes(taken)} of pages in the first {beginning.iterations} "
            f"iterations; modelled: {format_bytes(plain)} that PyTorch's own allocator would have "
            "reserved for the same requests"
        )
        return Verdict(sentence, basis, whole_run, taken, plain)

    def _whole_run(self, evidence: Evidence) -> list[str]:
        """What there is to say of the whole run."""
        summary = evidence.summary
        lines = []
        if summary.run_bytes:
            counted = summary.iterations - summary.uncounted
            of = f"all {counted}" if not summary.uncounted else f"the {counted} counted"
            line = (
                f"{percent(summary.run_share)} of the {format_bytes(summary.run_bytes)} that "
                f"{of} iterations asked for came from slots"
            )
            if summary.uncounted:
                line += f"; none in {summary.uncounted} others, whose bytes were not counted"
            lines.append(line)
        beginning = evidence.beginning
        if beginning is None or not evidence.plan:
            return lines
        if not beginning.pages:
            lines.append(
                f"the first {beginning.iterations} iterations were served by PyTorch's own "
                "allocator while they were recorded, so the peak of a first run is no lower than "
                "theirs; with plan= nothing is recorded"
            )
            return lines
        try:
            taken, plain = self._of_beginning(evidence)
        except UnmodelledError:
            return lines
        lines.append(
            f"first {beginning.iterations} iterations: {format_bytes(taken)} of pages at most "
            f"(counted), plain PyTorch {format_bytes(plain)} (modelled)"
        )
        return lines

    # --- figures --------------------------------------------------------------------------------

    def _of_beginning(self, evidence: Evidence) -> tuple[int, int]:
        """Bytes of pages in the recorded iterations, and what plain PyTorch would have reserved.

        Both with what was held before, parameters above all.

        Raises:
            UnmodelledError: when one of them is not known.
        """
        beginning = evidence.beginning
        settings = settings_of(evidence.framework, evidence.device)
        if beginning is None or not beginning.pages:
            raise UnmodelledError("nothing was recorded that could be compared")
        plain = self._once(beginning, lambda: of_recording(beginning.events, settings))
        if not plain:
            raise UnmodelledError("nothing was requested while it was recorded")
        return beginning.pages, beginning.before + plain

    def _plain_of_plan(self, evidence: Evidence) -> int:
        settings: AllocatorSettings = settings_of(evidence.framework, evidence.device)
        plan = evidence.plan
        assert plan is not None
        return self._once(plan, lambda: of_plan(plan, settings))

    def _once(self, key: object, find: Callable[[], int]) -> int:
        """The model's answer for a plan or a recording, found when it is first asked for."""
        found = next((answer for known, answer in self._known if known is key), None)
        if found is None:
            try:
                found = find()
            except UnmodelledError as missing:
                found = missing
            self._known.append((key, found))
        if isinstance(found, UnmodelledError):
            raise found
        return found


def _nothing(reason: str) -> str:
    return f"this program gains nothing here, because {reason}"


def _why_nothing(evidence: Evidence) -> str:
    """Why there is nothing to compare, or "" where there is."""
    summary = evidence.summary
    if not summary.iterations:
        return "no iteration was seen; call session.step() at the end of each"
    if evidence.gave_up:
        return evidence.gave_up
    if evidence.recorded_only:
        return "it was recorded and not served, as was asked for"
    if evidence.plan is None and not summary.waits:
        if summary.iterations < _FEW:
            are = "iteration is" if summary.iterations == 1 else "iterations are"
            return (
                f"{summary.iterations} {are} too few: a plan is made when two have agreed, and one "
                "more has shown what is freed later"
            )
        return f"none of its {summary.iterations} iterations could be planned yet"
    if not summary.since and not summary.waits and not summary.pages:
        return (
            "its plan has served no iteration yet"
            if not summary.replayed
            else "its iterations do not follow their plan: most of their bytes had no slot"
        )
    return ""
