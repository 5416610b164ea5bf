"""Memory use of a job at any batch: one profile, or laws fitted to several profiles.

evidence at 2, 4        requests paired, sizes fitted          Law
law.at(18)  -->  a profile and its categories  -->  bytes of the card that each allocator takes
"""

from collections.abc import Sequence
from dataclasses import replace

from pgmo.errors import OptionError, ProfileError, RehearsalError
from pgmo.fit.evidence import Evidence
from pgmo.fit.laws.growth import StepGrowth
from pgmo.fit.laws.load import PYTORCH, Load
from pgmo.fit.laws.need import Need
from pgmo.fit.laws.scaling import ScaledProfile
from pgmo.rehearsal.environment import Way

_PAGE_EXCESS = 16 << 20
"""Bytes that pgmo takes above the live bytes, if no rehearsal measured them: unused parts of pages.
A rehearsal of GPT-2 medium on 16 GiB took 7 MiB above the live bytes."""

_MAX_ERROR = 0.001
"""Maximum relative error of laws from rehearsals without pgmo, at the peaks of rehearsals with
pgmo. Above this error, the laws are fitted to all rehearsals."""

PAGE = 2 << 20
"""Page size of the driver, in bytes: the granularity of mapping."""


class Law:
    """Memory use of a job at any value of the option that varies.

    Args:
        evidence: rehearsals: one for a job that does not vary, else several. Rehearsals of fewer
            than three steps are left out. At each value, the last rehearsal is used.
        above: bytes that pgmo takes above the live bytes; used if no rehearsal in `evidence` has
            measured them.

    Raises:
        RehearsalError: if no rehearsal completed three steps.
        ProfileError: if the histories do not correspond.
    """

    def __init__(self, evidence: Sequence[Evidence], above: int | None = None) -> None:
        whole = [one for one in evidence if one.whole]
        if not whole:
            raise RehearsalError(
                "no rehearsal completed three optimizer steps, so the loop is unknown: let the "
                "script make at least three"
            )
        self.whole = whole
        by_value = {one.value: one for one in _whole_requests(whole)}
        self.evidence = sorted(by_value.values(), key=lambda one: one.value or 0)
        self.last = self.evidence[-1]
        shown = [_above(one) for one in whole if one.way == "pgmo" and one.rehearsal.fits]
        self.above = max(shown, default=above)
        self._fitted = _fit(self.evidence)
        self._known: dict[int | None, Load] = {}

    @property
    def context(self) -> int:
        """Bytes of the CUDA context."""
        return self.last.rehearsal.context

    @property
    def description(self) -> str:
        """Number of requests that follow each kind of law, in words."""
        if self._fitted is None:
            return "one rehearsal, unscaled"
        return self._fitted[0].description

    @property
    def uncertainty(self) -> float:
        """Share of the bytes at the largest rehearsed value in blocks whose size follows no law."""
        return 0.0 if self._fitted is None else self._fitted[0].estimated_share

    def at(self, value: int | None) -> Load:
        """Return the load at a value of the option that varies.

        Raises:
            OptionError: if only one value was rehearsed, and `value` is another.
            ProfileError: if the predicted sizes are larger than a profile can have.
        """
        if value not in self._known:
            exact = next((one for one in self.evidence if one.value == value), None)
            if exact is not None:
                self._known[value] = _load_of(exact)
            elif self._fitted is None or value is None:
                raise OptionError(
                    f"memory at {value} cannot be predicted from one value: "
                    "rehearse at two values at least"
                )
            else:
                fitted, largest = self._fitted
                self._known[value] = replace(largest, profile=fitted.at(value))
        return self._known[value]

    @property
    def growth(self) -> StepGrowth | None:
        """Growth of live memory at the largest rehearsed value; None if there is none."""
        return self.last.growth

    def growth_at(self, value: int | None) -> int:
        """Return the bytes by which live memory grows after the history; see `StepGrowth.total`."""
        points = [(one.value or 0, one.growth.total if one.growth else 0) for one in self.evidence]
        return _on_line(points, value)

    def later_at(self, value: int | None) -> int:
        """Return the peak of live bytes after the history, as in evaluations, without growth."""
        points = [(one.value or 0, _later_peak(one)) for one in self.evidence]
        return _on_line(points, value)

    def holds(self, value: int | None, usable: int) -> bool:
        """Return whether `usable` bytes hold the least live bytes, growth, context and one page."""
        try:
            least = self.at(value).least + self.growth_at(value)
            return max(least, self.later_at(value)) + self.context + PAGE <= usable
        except ProfileError:
            return False

    def fits(self, value: int | None, usable: int, way: Way) -> bool:
        """Return whether the job runs to its end on a card with `usable` bytes.

        PyTorch releases cached memory before it reports out of memory. So a job may run although it
        would reserve more on a larger card.
        """
        capacity = usable - self.context - self.growth_at(value)
        try:
            load = self.at(value)
        except ProfileError:
            return False
        if max(load.least, self.later_at(value)) > capacity:
            return False
        if way == "pgmo":
            return self.with_pgmo(max(load.least, self.later_at(value))) <= capacity
        return load.simulate(way, capacity).failed is None

    def with_pgmo(self, peak: int) -> int:
        """Return the bytes that pgmo takes for a peak of live bytes, without the context."""
        return peak + (_PAGE_EXCESS if self.above is None else self.above)

    def need(self, value: int | None) -> Need:
        """Return the job's need at a value with each allocator; raise the errors of `at`."""
        load = self.at(value)
        exact = any(one.value == value for one in self.evidence)
        later, growth = self.later_at(value), self.growth_at(value)
        reserved: dict[str, int] = {
            way: max(later, load.simulate(way).peak_reserved) + growth for way in PYTORCH
        }
        seen = [one for one in self.evidence if one.way == "pgmo" and one.value == value]
        pgmo = max((taken(one) for one in seen), default=self.with_pgmo(max(later, load.peak)))
        where = ""
        if value is not None and not exact:
            where = f"predicted from rehearsals at {self._values()}: {self.description}"
        observed = (*self.last.known.get("notes", ()), *self.last.rehearsal.notes, where)
        notes = [one for one in observed if one]
        return Need(
            **load.at_peak,
            context=self.context,
            allocated_peak=load.peak,
            reserved=reserved | {"pgmo": pgmo + growth},
            growth=growth,
            uncertainty=0.0 if exact else self.uncertainty,
            notes=tuple(dict.fromkeys(notes)),
        )

    def _values(self) -> str:
        return ", ".join(str(one.value) for one in self.evidence)


def _whole_requests(whole: Sequence[Evidence]) -> list[Evidence]:
    """Return the rehearsals in which no request failed; if a request failed in each, return all.

    After a failed request, a convolution ran without a workspace, so the history lacks requests.
    """
    return [one for one in whole if not one.known.get("ran_out")] or list(whole)


def _fit(evidence: Sequence[Evidence]) -> tuple[ScaledProfile, Load] | None:
    """Fit the laws; return them with the load at the largest value, or None for one value.

    While pgmo records, a few operators request more memory. So laws are fitted to the rehearsals
    without pgmo, if these laws also predict the peaks of the rehearsals with pgmo.
    """
    if len(evidence) < 2:
        return None
    plain = [one for one in evidence if one.way != "pgmo"]
    if len(plain) > 1:
        fitted, largest = _fit_all(plain)
        others = [one for one in evidence if one.way == "pgmo"]
        if all(_predicts(fitted, largest, one) for one in others):
            return fitted, largest
    return _fit_all(evidence)


def _fit_all(evidence: Sequence[Evidence]) -> tuple[ScaledProfile, Load]:
    values = [int(one.value or 0) for one in evidence]
    loads = [_load_of(one) for one in evidence]
    return ScaledProfile(values, [one.profile for one in loads]), loads[-1]


def _predicts(fitted: ScaledProfile, largest: Load, other: Evidence) -> bool:
    """Return whether laws predict the peak of a rehearsal that they were not fitted to."""
    try:
        predicted = replace(largest, profile=fitted.at(int(other.value or 0))).peak
    except ProfileError:
        return False
    true = _load_of(other).peak
    return abs(predicted - true) <= _MAX_ERROR * true


def _on_line(points: Sequence[tuple[int, int]], value: int | None) -> int:
    """Return the bytes at a value: measured, or on the line through the last two points.

    A level line through the last point replaces a falling line.
    """
    at, last = points[-1]
    exact = dict(points).get(value or 0)
    if exact is not None or len(points) < 2 or value is None:
        return last if exact is None else exact
    before, size = points[-2]
    slope = max(0, last - size) / (at - before)
    return max(0, last + round(slope * (value - at)))


def _later_peak(evidence: Evidence) -> int:
    """Return the peak of the live bytes in the steps after the history, without growth."""
    later = int(evidence.known.get("later_peak", 0))
    growth = evidence.growth
    return max(0, later - growth.until(growth.rehearsed)) if growth is not None else later


def taken(evidence: Evidence) -> int:
    """Return the peak bytes of the card that a rehearsal took, without the context and growth."""
    growth, grown = evidence.growth, 0
    if growth is not None:
        # Evidence is written at intervals, so the last steps before memory ran out may be missing.
        steps = max(growth.rehearsed, evidence.rehearsal.iterations or 0)
        grown = growth.until(steps)
    return evidence.rehearsal.card_peak - evidence.rehearsal.context - grown


def _above(evidence: Evidence) -> int:
    """Return the bytes of the card that pgmo took above the live bytes."""
    live = _load_of(evidence).peak
    return max(0, taken(evidence) - max(live, _later_peak(evidence)))


def _load_of(evidence: Evidence) -> Load:
    assert evidence.load is not None
    return evidence.load
