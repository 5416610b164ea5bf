"""One plan for all ranks whose profiles are the same, made by the first that needs it.

    rank 0   claims ──▶ plans ──▶ puts the plan into the store
    rank 1   claimed by another ──▶ looks for the plan ······▶ has it
    rank 2   ... ──▶ nothing came in time ──▶ plans by itself, from then on always

The store is that of the default process group, and nothing else passes between ranks: no
collective, so whoever comes late, or never, is not waited for by any. Between a claim and its plan
the planner waits for nobody, so no two ranks can wait for each other. What comes out of the store
is checked like a file, and must have this rank's own requests. When a block is freed may differ
by a few, as threads of a communication library let go of theirs sooner on one rank than on another,
and in one iteration than in the next.
"""

import hashlib
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

from pgmo.allocator.ranks.courier import Courier, UnreachableError, courier
from pgmo.errors import FileError
from pgmo.packing.plan import COLUMNS, Plan
from pgmo.packing.plan_file import pack_plan, unpack_plan
from pgmo.packing.planning_options import PlanningOptions
from pgmo.profiler.profile import Profile
from pgmo.version import __version__

PATIENCE = 10.0
"""Seconds in which a plan that another rank makes has to come: twice what `effort="best"` may take,
and six times what a million blocks do in `bench/packing.py`."""

ANSWER = 5.0
"""Seconds in which the store has to answer, with a plan as the longest answer."""

_FIRST_LOOK, _LAST_LOOK = 0.002, 0.1  # seconds between two, growing: a thousand ranks may look
_BYTES_A_ROW, _BYTES_BESIDE = 256, 1 << 20  # of a plan that is unpacked, at most
_SAME_LIVES = 0.95  # of the blocks, at least, must be freed at the same tick
_BESIDE = {"end", "thread", "tag", "ordinal", "address", "tags", "meta", "trace", "order"}
"""Fields of a profile that do not decide whether another's plan will do, or are looked at later."""


@dataclass
class Shared:
    """What has passed between this process and the others, for summaries and tests.

    Args:
        given: plans that others may have had from here.
        taken: plans that came from others.
        alone: why nothing passes any more; "" as long as it does.

    Example:
        >>> Shared().taken
        0
    """

    given: int = 0
    taken: int = 0
    alone: str = ""


counted = Shared()


def plan_once(profile: Profile, options: PlanningOptions, make: Callable[[], Plan]) -> Plan:
    """The plan of a profile, from another rank if one has made it, or is at it.

    Args:
        profile: what is to be planned.
        options: how.
        make: plans it here.

    Returns:
        What `make` would have returned, or another rank's plan of the same requests, with the
        lifetimes that they have there.

    Raises:
        Exception: whatever `make` raises.

    Example:
        >>> from pgmo.packing.planner import plan_profile
        >>> profile = Profile.from_columns(size=[64], start=[0], end=[1], ticks=1)
        >>> options = PlanningOptions(effort="fast")
        >>> plan_once(profile, options, lambda: plan_profile(profile, options)).arena
        64
    """
    post = courier()
    if post is None or post.lost:
        return make()
    name = key(profile, options)
    if name is None:
        return make()
    try:
        if post.ask(lambda store: store.add(f"{name}/claims", 1), seconds=ANSWER) != 1:
            plan = _wait(post, name, profile)
            return make() if plan is None else plan
    except UnreachableError as error:
        counted.alone = str(error)
        return make()
    made: Plan | None = None
    try:
        made = make()
        return made
    finally:  # also with an error, or Ctrl-C: the others are told not to wait
        _give(post, name, made)


def key(profile: Profile, options: PlanningOptions) -> str | None:
    """A name for requests and options; None where something decides that has no name.

    Example:
        >>> one = Profile.from_columns(size=[64], start=[0], end=[1], ticks=1)
        >>> other = Profile.from_columns(size=[64], start=[0], end=[1], ticks=1, tag=[-1])
        >>> key(one, PlanningOptions()) == key(other, PlanningOptions())
        True
    """
    digest = hashlib.sha256(f"{__version__} {options!r}".encode())
    for field in fields(profile):
        value = getattr(profile, field.name)
        if field.name in _BESIDE or value is None:
            continue
        digest.update(f" {field.name} ".encode())
        if isinstance(value, np.ndarray):
            digest.update(np.ascontiguousarray(value).tobytes())
        elif isinstance(value, bool | int | str):
            digest.update(repr(value).encode())
        else:
            return None
    return f"pgmo/{digest.hexdigest()}"


def _give(post: Courier, name: str, plan: Plan | None) -> None:
    data = b"" if plan is None else zlib.compress(pack_plan(plan), 1)
    try:
        post.ask(lambda store: store.set(f"{name}/plan", data) or True, seconds=ANSWER)
    except UnreachableError as error:
        counted.alone = str(error)
    else:
        counted.given += plan is not None


def _wait(post: Courier, name: str, profile: Profile) -> Plan | None:
    """The plan that another rank makes; None where it makes none, or one that is none of ours.

    Raises:
        UnreachableError: when it has not come in time.
    """
    begin, pause = time.monotonic(), _FIRST_LOOK
    while not post.ask(lambda store: store.check([f"{name}/plan"]), seconds=ANSWER):
        if time.monotonic() - begin > PATIENCE:
            post.leave()
            raise UnreachableError(f"another rank's plan has not come within {PATIENCE:g} s")
        time.sleep(pause)
        pause = min(2 * pause, _LAST_LOOK)
    data = post.ask(lambda store: store.get(f"{name}/plan"), seconds=ANSWER)
    plan = _unpacked(data, profile)
    counted.taken += plan is not None
    return plan


def _unpacked(data: bytes, profile: Profile) -> Plan | None:
    if not data:
        return None
    most = _BYTES_BESIDE + _BYTES_A_ROW * len(profile)
    try:
        plan = unpack_plan(zlib.decompressobj().decompress(data, most), Path("another rank"))
    except (FileError, zlib.error):
        return None
    return replace(plan, meta=profile.meta, order=profile.order) if _is_of(plan, profile) else None


def _is_of(plan: Plan, profile: Profile) -> bool:
    """Whether a plan has the requests of a profile, row by row, and nearly all of their ends."""
    own = [name for name in COLUMNS if hasattr(profile, name) and name != "end"]
    same = all(np.array_equal(getattr(plan, name), getattr(profile, name)) for name in own)
    if not same or (plan.ticks, plan.circular) != (profile.ticks, profile.circular):
        return False
    return bool(np.count_nonzero(plan.end == profile.end) >= _SAME_LIVES * len(profile))
