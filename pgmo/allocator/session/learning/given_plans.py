"""Plans from the option `plan=`, until they serve or are refused."""

import os
from pathlib import Path

import numpy as np

from pgmo.allocator import heuristics
from pgmo.allocator.plans.directory import PlanDirectory, find_profile
from pgmo.allocator.plans.plan_set import PlannedProfile, check_replayable, requests_of
from pgmo.allocator.session.state import SessionState
from pgmo.packing.plan import Plan
from pgmo.profiler.iterations.iteration_kinds import compare
from pgmo.profiler.iterations.request_pairs import UNPAIRED
from pgmo.profiler.recording import Iteration
from pgmo.world import world


class GivenPlans:
    """Plans of the option `plan=`.

    A given plan, a plan from a file, or this rank's own plan in a directory is the session's plan
    from the beginning. If a directory has no plan of this rank, the session chooses the plan of the
    directory that has most requests of a recorded iteration.

    Attributes:
        pending: whether plans were given, but not yet compared with the program.
    """

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._alignment = state.adapter.alignment
        self._folder = Path()
        self._candidates: list[tuple[Path, Plan]] = []
        self.pending = False

    def load(self) -> None:
        """Read the plans; raise `FileError` or `PlanError` if a plan outside a directory is bad."""
        named = self._state.options.plan
        if isinstance(named, str | os.PathLike) and os.path.isdir(named):
            self.pending = self._load_directory(Path(named))
            return
        self.pending = named is not None
        if named is None:
            return
        plan = named if isinstance(named, Plan) else Plan.load(named)
        for one in (plan, *plan.others):
            check_replayable(one, self._alignment)
        self._state.plan, self._state.profile = plan, find_profile(named, plan)

    @property
    def plans(self) -> list[PlannedProfile]:
        """The session's plan, which must exist, and the other plans in the same file."""
        plan = self._state.plan
        assert plan is not None
        others = (PlannedProfile(one, None) for one in plan.others)
        return [PlannedProfile(plan, self._state.profile), *others]

    @property
    def opening(self) -> PlannedProfile | None:
        """Plan of the program's first iteration in the same file; None if there is none."""
        opening = self._state.plan and self._state.plan.opening
        return None if opening is None else PlannedProfile(opening, None)

    def fit(self, latest: Iteration) -> bool:
        """Return whether the plans match the latest iteration; if so, they are no longer pending.

        If the session has no plan yet, compare the directory's plans, and choose the best match.
        """
        plan = self._state.plan
        if plan is not None:
            self.pending = compare(requests_of(plan), latest).kind == "none"
            return not self.pending
        path, best, share = self._best(latest)
        self.pending = share < heuristics.current.known_share
        if not self.pending:
            self._choose(path, best)
            self._state.notes.append(
                f"began with {path.name}, which has {share:.1%} of the last iteration's requests"
            )
        return not self.pending

    def refuse(self, latest: Iteration) -> None:
        """Drop the plans, because none matches. Warn, or add a note if the session had no plan."""
        self.pending = False
        plan = self._state.plan
        if plan is None:
            share = self._best(latest)[-1]
            self._state.notes.append(
                f"no plan in {self._folder} fits: the best of {len(self._candidates)} has "
                f"{share:.1%} of the last iteration's requests, and "
                f"{heuristics.current.known_share:.0%} are needed; making a new plan"
            )
            return
        explanation = compare(requests_of(plan), latest).explanation
        self._state.warn(
            f"the plan given does not match this program ({explanation}); making a new plan"
        )
        self._state.plan = None

    def _load_directory(self, folder: Path) -> bool:
        here = world()
        directory = PlanDirectory(folder, self._state.options.model_name, here)
        own = directory.own(self._alignment)
        if own is not None:
            self._choose(*own)
            of_rank = "" if here is None else f", the plan of rank {here.rank} of {here.size}"
            self._state.notes.append(f"began with {own[0].name}{of_rank}")
            return True
        self._folder = folder
        self._candidates = list(directory.all(self._alignment))
        if not self._candidates:
            self._state.notes.append(f"{folder} has no usable plan for this model")
        return bool(self._candidates)

    def _best(self, latest: Iteration) -> tuple[Path, Plan, float]:
        """Return the plan that has most of an iteration's requests, with its path and the share."""
        shares = [share_of_known(plan, latest) for _, plan in self._candidates]
        best = int(np.argmax(shares))
        return *self._candidates[best], shares[best]

    def _choose(self, path: Path, plan: Plan) -> None:
        self._state.plan, self._state.profile = plan, find_profile(path, plan)


def share_of_known(plan: Plan, iteration: Iteration) -> float:
    """Return the share of an iteration's requests that a plan has, at sizes that it allows."""
    requests = requests_of(plan)
    match = compare(requests, iteration)
    if match.kind == "none":
        return 0.0
    rows = match.rows_in(requests)
    paired = rows != UNPAIRED
    equal = requests.size[rows[paired]] == iteration.size[paired]
    return int(np.count_nonzero(equal | plan.varying[rows[paired]])) / max(1, len(iteration))
