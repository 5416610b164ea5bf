"""State that the parts of a session share: phase, plan, profile and notes."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from pgmo.allocator.adapters.adapter import Adapter
from pgmo.allocator.session.options import Options
from pgmo.allocator.session.statistics import Phase
from pgmo.allocator.session.threads.pauses import Pauses
from pgmo.allocator.session.threads.turns import Turns
from pgmo.packing.plan import Plan
from pgmo.packing.planning_options import PlanningOptions
from pgmo.profiler.profile import Profile, ProfileMeta
from pgmo.user_warnings import warn_user
from pgmo.version import __version__

_MOST_NOTES = 20
"""Maximum number of notes, so that summaries stay short. Above it, the oldest are dropped."""


@dataclass(eq=False)
class SessionState:
    """Shared state of one session.

    Args:
        adapter: adapter of the framework's allocator.
        options: options that the program gave.
        phase: state of the session's state machine.
        profile: the latest profile, recorded or from a file; None while there is none.
        plan: the latest plan; None while there is none.
        opening: profile of the first iteration; None if it is not needed, or not recorded.
        saved: files written by `save=` that still exist.
        replans: number of decisions to replace a plan, after divergences or for larger requests.
        notes: notes for the summary.
        persistent_origin: module or operator that allocated most bytes of blocks that are never
            freed, in one line; "" if unknown.
        waits: reason why no plan serves; "" while a plan serves, and in the first recording.
        gave_up: reason why no slot serves for the rest of the session; "" if slots may serve.
        paused: pauses of the engine (`Pauses`).
        turns: object that decides which thread's iterations are counted.
    """

    adapter: Adapter
    options: Options
    phase: Phase = Phase.RECORD
    profile: Profile | None = None
    plan: Plan | None = None
    opening: Profile | None = None
    saved: tuple[Path, ...] = ()
    replans: int = 0
    notes: list[str] = field(default_factory=list)
    persistent_origin: str = ""
    waits: str = ""
    gave_up: str = ""
    paused: Pauses = field(init=False)
    turns: Turns = field(init=False)

    def __post_init__(self) -> None:
        self.paused = Pauses(self.adapter.engine)
        self.turns = Turns(self.adapter.engine, self.warn, self.paused)

    @property
    def planning(self) -> PlanningOptions:
        """Planning options for this allocator."""
        planning = self.options.planning(self.adapter.alignment)
        return replace(planning, sparse_from=self.adapter.engine.sparse_from)

    def meta(self, notes: dict[str, str]) -> ProfileMeta:
        """Return the metadata of a profile recorded now."""
        return ProfileMeta(
            framework=self.adapter.name,
            framework_version=self.adapter.version,
            pgmo_version=__version__,
            device=self.adapter.device,
            model=self.options.model_name,
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            notes=notes,
        )

    def warn(self, note: str) -> None:
        """Warn the user and keep the note for the summary."""
        if note not in self.notes:
            self.notes = [*self.notes, note][-_MOST_NOTES:]
        warn_user(f"pgmo: {note}")
