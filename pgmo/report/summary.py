"""All findings about a profile in one value, for pages, callbacks and plain text."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from pgmo.errors import OptionError
from pgmo.profiler.profile import Profile
from pgmo.report.advice import Facts, Hint, advise
from pgmo.report.blocks.origins import By
from pgmo.report.findings.attribution import Holder, Peak, find_peak
from pgmo.report.findings.drift import Drift, find_drift
from pgmo.report.findings.failures import Failure, find_failures
from pgmo.report.findings.fragmentation import Fragmentation, find_fragmentation
from pgmo.report.findings.leaks import Leaks, find_leaks
from pgmo.report.findings.moment import Moment, find_moment
from pgmo.report.findings.pools import PrivatePools, find_private_pools
from pgmo.report.findings.reserved import Reservation, predict_reserved
from pgmo.report.findings.residents import Residents, find_residents
from pgmo.report.findings.streams import StreamUse, stream_use
from pgmo.report.kept import KnownKeepers, find_kept

if TYPE_CHECKING:
    from pgmo.packing.plan import Plan


@dataclass(frozen=True, eq=False)
class Explanation:
    """Findings about a profile, made by `explain`. Sizes are in bytes.

    Args:
        moment: findings about a profile without a history of requests; None if it has one.
        blocks: number of blocks in the profile.
        ticks: requests per iteration.
        circular: whether the iteration repeats.
        steady: whether at least two recorded iterations have one structure.
        peak: the peak and its holders.
        unplanned: bytes of persistent and shared blocks, which get no slot in a plan. PyTorch
            would reserve these bytes, too.
        residents: blocks that are always alive, and do not count in the peak.
        leaks: blocks that accumulate.
        drift: differences between iterations.
        streams: requests of each stream.
        fragmentation: reserved and unused bytes in the trace; None without a trace or segments.
        pools: private pools of CUDA graphs and `MemPool` objects; None if there are none.
        failures: requests of the trace that ran out of memory.
        reserved: predicted memory that PyTorch reserves, by name in `SETTINGS`; may be empty.
        plan: the given plan; None without a plan or without a history.
        kept: variables that keep blocks alive, from the profile's notes.
        hints: advice, in the order of `advise`: causes first.
    """

    moment: Moment | None
    blocks: int
    ticks: int
    circular: bool
    steady: bool
    peak: Peak
    unplanned: int
    residents: Residents
    leaks: Leaks
    drift: Drift
    streams: tuple[StreamUse, ...]
    fragmentation: Fragmentation | None
    pools: PrivatePools | None
    failures: tuple[Failure, ...]
    reserved: dict[str, Reservation]
    plan: "Plan | None"
    kept: KnownKeepers
    hints: tuple[Hint, ...]

    @property
    def max_load(self) -> int:
        """Peak of the live bytes of planned blocks; 0 without a history."""
        return self.peak.size if self.moment is None else 0

    @property
    def holders(self) -> Mapping[By, tuple[Holder, ...]]:
        """Origins of the bytes at the peak, by grouping."""
        return self.peak.holders

    def lines(self) -> list[str]:
        """Return the explanation as lines of text."""
        from pgmo.report.words import explanation_lines

        return explanation_lines(self)


def explain(
    profile: Profile, plan: "Plan | None" = None, *, top: int = 10, predict: bool = True
) -> Explanation:
    """Return all findings about a profile.

    Args:
        profile: the profile.
        plan: plan of this profile, for comparison.
        top: maximum number of named rows in each list of holders.
        predict: whether to predict the bytes that PyTorch reserves, which takes most of the time.

    Raises:
        OptionError: if `top` is below 1.
    """
    if top < 1:
        raise OptionError(f"top must be at least 1, not {top}")
    trace = profile.trace
    peak = find_peak(profile, top)
    moment = find_moment(profile)
    explanation = Explanation(
        moment=moment,
        blocks=len(profile),
        ticks=profile.ticks,
        circular=profile.circular,
        steady=profile.steady,
        peak=peak,
        unplanned=int(profile.size[profile.turns == 0].sum()),
        residents=find_residents(profile, top),
        leaks=find_leaks(profile),
        drift=find_drift(profile),
        streams=stream_use(profile),
        fragmentation=None if trace is None else find_fragmentation(trace),
        pools=None if trace is None else find_private_pools(trace),
        failures=() if trace is None else find_failures(trace),
        reserved=predict_reserved(profile) if predict and moment is None else {},
        plan=plan if moment is None else None,
        kept=find_kept(profile),
        hints=(),
    )
    return replace(explanation, hints=advise(Facts(profile, explanation)))


def plain(value: Any) -> Any:
    """Convert dataclasses, mappings and tuples to dicts and lists for JSON.

    Fields with `compare=False` are omitted, because only drawings need them.
    """
    if is_dataclass(value) and not isinstance(value, type):
        shown = (item.name for item in fields(value) if item.compare)
        return {name: plain(getattr(value, name)) for name in shown}
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, tuple):
        return [plain(one) for one in value]
    return value
