"""Plans that a program was given, until they serve or are refused."""

from pgmo.allocator.plans.conversions import requests_of
from pgmo.allocator.plans.initial_plan import load_given
from pgmo.allocator.plans.plan_set import PlannedProfile
from pgmo.allocator.ranks.nearest import Nearest, share_of_known
from pgmo.allocator.session.state import SessionState
from pgmo.profiler.iterations.step_finder import compare
from pgmo.profiler.recording import Iteration


class GivenPlans:
    """What `plan=` or `profile=` names, or the directory of `save=` has for this rank.

    Args:
        state: where the session stands.
        alignment: bytes, of what the device's allocator gives.

    Attributes:
        wait: whether there are plans that neither serve nor have been refused.
    """

    def __init__(self, state: SessionState, alignment: int) -> None:
        self._state = state
        self._alignment = alignment
        self._nearest = Nearest(state)
        self.wait = False

    def load(self) -> bool:
        """Reads what there is; whether there is something.

        Raises:
            FileError, PlanError: when the plan or profile given cannot be read or replayed.
        """
        if self._nearest.wanted:
            given = self._nearest.begin()
        else:
            given = load_given(self._state.options, self._alignment)
        if given is not None:
            self._state.plan, self._state.profile = given
            self.wait = True
        return given is not None

    @property
    def plans(self) -> list[PlannedProfile]:
        """All that were in one file, the main one first."""
        plan = self._state.plan
        assert plan is not None
        others = (PlannedProfile(one, None) for one in plan.others)
        return [PlannedProfile(plan, self._state.profile), *others]

    @property
    def opening(self) -> PlannedProfile | None:
        """The plan of the program's first iteration that came with them."""
        opening = self._state.plan and self._state.plan.opening
        return None if opening is None else PlannedProfile(opening, None)

    @property
    def may_open(self) -> bool:
        """Whether they may serve the first iteration, if they know it."""
        return self._nearest.may_open

    def served(self, known_rate: float) -> bool:
        """Whether they may serve, when the program's first iteration was served already.

        Args:
            known_rate: the share of its requests that were expected.
        """
        near = self._nearest.is_near(known_rate)
        if near:
            self._nearest.tell(known_rate)
            self.wait = False
        return near

    def fit(self, latest: Iteration, last: bool) -> bool:
        """Whether they may serve, as an iteration has just followed them.

        Args:
            latest: that iteration.
            last: whether no other one will be waited for: then others of the directory may do.
        """
        plan = self._state.plan
        assert plan is not None
        same = compare(requests_of(plan), latest).kind != "none"
        near = same and self._nearest.is_near(share_of_known(plan, latest))
        if near or (last and self._nearest.another(latest)):
            self._nearest.tell(share_of_known(self.plans[0].plan, latest))
            self.wait = False
            return True
        return False

    def refuse(self, latest: Iteration) -> None:
        """Tells that none is this program's."""
        plan = self._state.plan
        assert plan is not None
        if self._nearest.wanted:
            self._nearest.refuse()
        else:
            explanation = compare(requests_of(plan), latest).explanation
            self._state.warn(
                f"the plan given does not match this program ({explanation}); "
                "making a new one instead"
            )
        self._state.plan = None
        self.wait = False
