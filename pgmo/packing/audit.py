"""Audit of a plan: checks the plan's claims, and compares the plan with a given profile.

`validate` raises at the first fault that makes a plan unusable. An audit reports the result of each
check, for people and continuous integration. The audit computes loads again by summing over time,
without the planner's code.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgmo.columns import distinct
from pgmo.errors import PlanError, ProfileError
from pgmo.packing.plan import UNPLANNED, Plan
from pgmo.packing.validator import validate
from pgmo.profiler.profile import NEVER, Profile
from pgmo.units import format_bytes

_AGAIN = "make the plan again from its profile"


@dataclass(frozen=True)
class Check:
    """Result of one check; `detail` has the figures, or describes the fault.

    `plan` is "" for the main plan of a file, else "opening" or, for example, "other 1".
    """

    plan: str
    name: str
    passed: bool
    detail: str


def audit(plan: Plan, profile: Profile | None = None) -> list[Check]:
    """Run the checks on a plan and on the plans inside it. If all checks pass, the plan is usable.

    If a profile is given, the plan or a plan inside it must have been made from this profile. If
    sizes or lifetimes of a plan are out of range, its load, bound and fingerprint are not checked.
    """
    named = {"": plan}
    named |= {f"other {number}": other for number, other in enumerate(plan.others, 1)}
    if plan.opening is not None:
        named["opening"] = plan.opening
    checks = [check for name, one in named.items() for check in _own_checks(name, one)]
    if profile is not None:
        matching = (name for name, one in named.items() if one.fingerprint == profile.fingerprint)
        name = next(matching, "")
        checks.append(_check(name, "profile", lambda: _profile(named[name], profile)))
    return checks


def _check(plan: str, name: str, look: Callable[[], str]) -> Check:
    try:
        return Check(plan, name, True, look())
    except (PlanError, ProfileError) as error:
        return Check(plan, name, False, str(error))


def _own_checks(name: str, plan: Plan) -> Iterator[Check]:
    slots = _check(name, "slots", lambda: _slots(plan))
    yield slots
    if slots.passed or _can_be_summed(plan):
        yield _check(name, "max load", lambda: _max_load(plan))
        yield _check(name, "bound", lambda: _bound(plan))
        yield _check(name, "fingerprint", lambda: _fingerprint(plan))


def _slots(plan: Plan) -> str:
    validate(plan)
    planned = int((plan.offset != UNPLANNED).sum())
    return (
        f"no two live blocks share a byte: {planned} of {len(plan)} blocks in "
        f"{format_bytes(plan.arena)}, at multiples of {plan.alignment} bytes"
    )


def _can_be_summed(plan: Plan) -> bool:
    """Return whether sizes and lifetimes are in the ranges that other checks assume."""
    within = (plan.start >= 0) & (plan.start < plan.ticks) & (plan.size > 0)
    within &= (plan.end == NEVER) | (plan.end > plan.start)
    within &= plan.end <= plan.start + 2 * plan.ticks
    return plan.alignment > 0 and bool(within.all())


def _max_load(plan: Plan) -> str:
    load = _largest_load(plan, np.ones(len(plan), bool), whole_slots=False)
    if load != plan.max_load:
        raise PlanError(
            f"the plan says {_exact_bytes(plan.max_load)}, its blocks have "
            f"{_exact_bytes(load)}; {_AGAIN}"
        )
    gap = f"; the arena is {plan.gap:.2%} larger" if load else ""
    return f"{format_bytes(load)}, computed anew{gap}"


def _bound(plan: Plan) -> str:
    """Check the claimed bound, and compute again the part of it that follows from loads."""
    claimed = plan.bound
    if not plan.max_load <= claimed <= plan.arena:
        raise PlanError(
            f"the bound is {_exact_bytes(claimed)}, which is not between the max load of "
            f"{_exact_bytes(plan.max_load)} and the arena of {_exact_bytes(plan.arena)}; {_AGAIN}"
        )
    if plan.optimal != (claimed == plan.arena):
        raise PlanError(
            f"the plan is called {'optimal' if plan.optimal else 'not optimal'}, with an arena of "
            f"{_exact_bytes(plan.arena)} and a bound of {_exact_bytes(claimed)}; {_AGAIN}"
        )
    streams = distinct(plan.stream[plan.offset != UNPLANNED])
    certain = sum(
        _largest_load(plan, plan.stream == stream, whole_slots=True) for stream in streams
    )
    proof = (
        "the bound follows from the load of the slots"
        if claimed <= certain
        else f"the bound is not proved again; loads alone prove {format_bytes(certain)}"
    )
    proved = "optimal" if plan.optimal else f"no plan is below {format_bytes(claimed)}"
    return f"{proved}: {proof}"


def _fingerprint(plan: Plan) -> str:
    own = plan.profile().fingerprint
    if own != plan.fingerprint:
        raise PlanError(
            f"the plan says {plan.fingerprint[:12]}, its blocks have {own[:12]}; {_AGAIN}"
        )
    return f"{own[:12]}, the fingerprint of its blocks"


def _profile(plan: Plan, profile: Profile) -> str:
    """Compare the plan with the profile row by row, because the fingerprint omits lifetimes."""
    what = _difference(plan, profile)
    if what:
        raise PlanError(f"{what}; make the plan again from this profile")
    return f"all {len(plan)} blocks and their lifetimes equal the profile's"


def _difference(plan: Plan, profile: Profile) -> str:
    for what, one, other in (
        ("blocks", len(plan), len(profile)),
        ("ticks", plan.ticks, profile.ticks),
        ("circular", plan.circular, profile.circular),
    ):
        if one != other:
            return f"{what}: {one} in the plan, {other} in the profile"
    for column in ("size", "stream", "start", "end", "varying", "shared"):
        own, theirs = getattr(plan, column), getattr(profile, column)
        rows = np.flatnonzero(own != theirs)
        if len(rows):
            row = int(rows[0])
            more = f", and {len(rows) - 1} more rows" if len(rows) > 1 else ""
            return (
                f"row {row}: {column} is {own[row]} in the plan, {theirs[row]} in the profile{more}"
            )
    return ""


def _largest_load(plan: Plan, chosen: NDArray[np.bool_], *, whole_slots: bool) -> int:
    """Return the largest sum of aligned sizes of the chosen blocks at one tick, in bytes.

    Persistent and shared blocks do not count. With `whole_slots`, both slots of a block that lives
    longer than `ticks` count at every tick, because both are reserved.
    """
    chosen = chosen & (plan.end != NEVER) & ~plan.shared
    size = -(-plan.size[chosen] // plan.alignment) * plan.alignment
    start, end = plan.start[chosen], plan.end[chosen]
    always = 0
    if whole_slots:
        twice = end - start > plan.ticks
        always = 2 * int(size[twice].sum())
        size, start, end = size[~twice], start[~twice], end[~twice]
    change = np.zeros(plan.ticks + 1, np.int64)
    for turn in range(3):  # Blocks requested in this iteration and in the two before it.
        low = np.clip(start - turn * plan.ticks, 0, plan.ticks)
        np.add.at(change, low, size)
        np.add.at(change, np.clip(end - turn * plan.ticks, low, plan.ticks), -size)
    return always + int(np.cumsum(change)[:-1].max(initial=0))


def _exact_bytes(count: int) -> str:
    return f"{format_bytes(count)} ({count} bytes)"
