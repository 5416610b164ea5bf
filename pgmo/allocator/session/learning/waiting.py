"""Plans that wait until they pay, while pages alone serve and are watched.

record ──iterations differ──▶ wait ──windows have moved as many pages──▶ replay
   │                           ▲ ▲                                         │
   │                           │ └───── it moves more than windows did ────┘
   └──its arena has no room────┘ ─────────────it has room now────────────▶ replay
"""

from pgmo.allocator import tuning
from pgmo.allocator.plans.installer import Installer
from pgmo.allocator.plans.page_costs import PAGE, PageCosts
from pgmo.allocator.plans.plan_set import PlannedProfile
from pgmo.allocator.session.learning.credit import LessonCredit
from pgmo.allocator.session.learning.lessons import is_known, learn
from pgmo.allocator.session.learning.room import Room
from pgmo.allocator.session.recorder import Recorder
from pgmo.allocator.session.state import SessionState
from pgmo.allocator.session.statistics import IterationStatistics, Phase
from pgmo.profiler.recording import split


class Waiting:
    """The plans that serve nothing yet, or no more for a while.

    Args:
        state: where the session stands.
        installer: has the plans that serve.
        recorder: is stopped while plans wait.

    Attributes:
        costs: of pages, with a plan and without.
    """

    def __init__(
        self,
        state: SessionState,
        installer: Installer,
        recorder: Recorder,
    ) -> None:
        self._state = state
        self._installer = installer
        self._recorder = recorder
        self._engine = state.adapter.engine
        self._plans: list[PlannedProfile] = []
        self._number = 0
        self._credit = LessonCredit()
        self._room = Room(state.adapter)
        self._for_room = False  # whether plans wait for that alone, as they fit the program
        self._missing = 0  # pages
        self._watched = False  # whether the iteration was recorded, while plans wait for room
        self.costs = PageCosts()

    @property
    def plans(self) -> list[PlannedProfile]:
        """Those that wait."""
        return list(self._plans)

    @property
    def explanation(self) -> str:
        """Why plans wait, in plain words; "" when none does."""
        if not self._plans:
            return ""
        pages = PlannedProfile.largest(self._plans) // PAGE
        if self._watched:
            return "its arena has room since the last iteration, and one more is recorded first"
        if self._for_room:
            return (
                f"beside what lives, its arena would take {self._missing:,} pages more than the "
                f"program has without it, which mapped {self.costs.moved:,} anew in "
                f"{self.costs.iterations} iterations"
            )
        return (
            f"its arena has {pages:,} pages, and without it only {self.costs.moved:,} were mapped "
            f"anew in {self.costs.iterations} iterations"
        )

    def begins(self, plans: list[PlannedProfile], number: int, alike: bool) -> bool:
        """Has a program's first plans wait, unless they are wanted at once, or pay already.

        Args:
            plans: all of them.
            number: the one that the last iteration would have followed.
            alike: whether all iterations are, so that plans only have to have room.
        """
        if self._serve_at_once or len(self._installer.plans) or self.costs.pays(plans):
            return False
        self._missing = self._room.missing(plans) if alike else 0
        if alike and not self._missing:
            return False
        self._recorder.stop()
        self._wait(plans, number)
        return True

    def gives_way(self, statistics: IterationStatistics) -> bool:
        """Has the plans that serve wait again, if they move too many pages.

        Args:
            statistics: of the iteration that they have just served.
        """
        plans = self._installer.plans.all
        self.costs.with_plan(statistics.driver_calls)
        if self._serve_at_once or not plans or not self.costs.overspent(plans):
            return False
        self.costs.give_way()
        self._missing = 0
        self._leave(plans, max(0, statistics.plan))
        return True

    def wait_for_room(self) -> None:
        """Has the plans that serve wait, if there is no room for an arena that has grown."""
        plans, shown = self._installer.plans.all, self._state.plan
        if self._serve_at_once or not plans or self.costs.pays(plans):
            return
        self._missing = self._room.missing(plans)
        if self._missing:
            self._leave(plans, next((at for at, one in enumerate(plans) if one.plan is shown), 0))

    def learn(self, statistics: IterationStatistics) -> bool:
        """Looks at an iteration that windows have served.

        Returns:
            Whether the plans pay now. Else the next iteration is watched, too.
        """
        if self._for_room:
            return self._found_room() or self.costs.pays(self._plans)
        soon = self.costs.pays(self._plans, tuning.LEARN_BEFORE)
        if soon and not self._engine.recording_truncated:
            self._learn_from_last()
        if self.costs.pays(self._plans):
            return True
        self._watch()
        return False

    def _found_room(self) -> bool:
        """Whether the plans have room, and are for what the program does now.

        Pages that a program has come to hold since may be those of larger sizes. So when there
        seems to be room, one more iteration is recorded, and the plans are made for that, too.
        """
        watched, self._watched = self._watched, False
        known = watched and not self._engine.recording_truncated and self._learn_from_last()
        self._recorder.stop()
        self._missing = self._room.missing(self._plans)
        if self._missing or known:
            return not self._missing
        self._watched = True
        self._watch()
        return False

    def end(self) -> tuple[list[PlannedProfile], int]:
        """The plans, and the one that the last iteration would have followed; none waits now."""
        self._recorder.stop()
        plans, self._plans = self._plans, []
        return plans, self._number

    def _learn_from_last(self) -> bool:
        """Makes plans for the last iteration, too, if credit is left for the attempt.

        One that teaches nothing costs as much as any other: requests are paired with those of every
        plan. Where no iteration is like another that would go on for ever.

        Returns:
            False where no credit is left.
        """
        iteration = split(self._engine.events())[-1]
        if is_known(self._plans, iteration):
            return True
        if not self._credit.spend(len(iteration), len(self._plans)):
            return False
        planning = self._state.planning
        lesson = learn(self._plans, iteration, self._number, planning=planning, headroom=0.0)
        if lesson is not None:
            self._state.replans += 1
            self._plans, self._number = self._installer.within_limit(lesson.plans, lesson.number)
        return True

    @property
    def _serve_at_once(self) -> bool:
        """Whether nothing but a plan will do: only plans spill, and what is learned is saved."""
        options = self._state.options
        special = options.budget is not None or options.save_directory is not None
        return special or not self._state.adapter.pages

    def _leave(self, plans: list[PlannedProfile], number: int) -> None:
        self._recorder.stop()
        self._installer.plans.clear()
        self._wait(plans, number)

    def _wait(self, plans: list[PlannedProfile], number: int) -> None:
        self._plans, self._number = plans, number
        shown = plans[number]
        self._state.profile, self._state.plan = shown.profile, shown.plan
        self._state.phase = Phase.WAIT
        self._for_room, self._watched = self._missing > 0, False
        if not self._for_room:
            self._watch()

    def _watch(self) -> None:
        self._engine.start_recording()
