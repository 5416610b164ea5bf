"""What the parts of a session's life share: where it stands, and what it has to tell."""

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
"""Notes that a summary keeps."""


@dataclass(eq=False)
class SessionState:
    """Where one session stands.

    Args:
        framework: the adapter.
        options: what the program wants.
        phase: what is done during an iteration.
        profile: the latest; None before anything was recorded.
        plan: the latest; None while there is none.
        saved: files written.
        replans: plans that took the place of others.
        notes: for the summary.
        waits: why no plan serves, in plain words; "" while one does, and at the beginning.
        gave_up: why everything is delegated for the rest of the session; "" as long as it is not.
        paused: who wants that nobody is served.
        turns: which thread's iterations are counted.
    """

    adapter: Adapter
    options: Options
    phase: Phase = Phase.RECORD
    profile: Profile | None = None
    plan: Plan | None = None
    saved: tuple[Path, ...] = ()
    replans: int = 0
    notes: list[str] = field(default_factory=list)
    waits: str = ""
    gave_up: str = ""
    paused: Pauses = field(init=False)
    turns: Turns = field(init=False)

    def __post_init__(self) -> None:
        self.paused = Pauses(self.adapter.engine)
        self.turns = Turns(self.adapter.engine, self.warn, self.paused)

    @property
    def planning(self) -> PlanningOptions:
        """How to plan for this allocator."""
        planning = self.options.planning(self.adapter.alignment)
        return replace(planning, apart_from=self.adapter.engine.sparse_from)

    def meta(self, notes: dict[str, str]) -> ProfileMeta:
        """What a profile that is recorded now says of its origin; `notes`: how it was found."""
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
        """Warns, and keeps the note for the summary."""
        if note not in self.notes:
            self.notes = [*self.notes, note][-_MOST_NOTES:]
        warn_user(f"pgmo: {note}")
