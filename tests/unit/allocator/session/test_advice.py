"""Advice to a program that has run out of memory."""

import numpy as np
import pytest

from pgmo.allocator.session import advice
from pgmo.allocator.session.statistics import Phase
from pgmo.packing.planner import plan
from pgmo.profiler.profile import Profile
from pgmo.profiler.tag import Tag
from tests.unit.allocator.simulated import LAYERS, Loop, open_session, run

MIB = 1 << 20


def profile(**changes):
    columns = {
        "size": [3 * MIB, 2 * MIB, 5 * MIB, MIB],
        "start": [0, 1, 2, 3],
        "end": [3, 2, 3, 4],
        "tag": [0, -1, 1, 0],
        "ticks": 4,
        "tags": (Tag("GPT.blocks.3", "aten.addmm", "forward"), Tag("", "aten.add", "optimizer")),
        **changes,
    }
    return Profile.from_columns(**columns)


def test_advice_has_the_need_of_the_plan_and_the_blocks_at_its_peak():
    own = profile()
    text = advice.while_replaying(plan(own), own)
    assert text.splitlines() == [
        "The plan needs 8.00 MiB, 0.00 % above the max load of 8.00 MiB.",
        "The largest of the 2 blocks at the plan's peak:",
        "    5.00 MiB  aten.add (optimizer)",
        "    3.00 MiB  GPT.blocks.3, aten.addmm (forward)",
        "What helps: a smaller batch; pgmo.recompute or torch.utils.checkpoint, if blocks of "
        "the forward pass live long.",
    ]


def test_blocks_without_a_tag_and_plans_without_a_profile_are_named_by_number():
    untagged = profile(tag=[-1] * 4)
    for given in (untagged, None):
        lines = advice.while_replaying(plan(untagged), given).splitlines()
        assert lines[2:4] == ["    5.00 MiB  request 2", "    3.00 MiB  request 0"]
    nameless = profile(tag=[-1] * 4, tags=())
    assert advice.HOW_TO_NAME in advice.while_replaying(plan(nameless), nameless)


def test_only_what_applies_is_proposed():
    own = profile(varying=[True, False, True, False])
    assert "shorter sequences" in advice.while_replaying(plan(own), own)
    assert "shorter sequences" not in advice.while_replaying(plan(profile()), profile())
    brief = profile(end=[1, 2, 3, 4])
    assert "torch.utils.checkpoint" not in advice.while_replaying(plan(brief), brief)
    wasteful = plan(profile())
    object.__setattr__(wasteful, "arena", 2 * wasteful.arena)
    assert "`pgmo plan --effort best`" in advice.while_replaying(wasteful, None)


def test_blocks_that_wrap_hold_the_peak_of_the_next_iteration():
    own = Profile.from_columns(size=[MIB, 7 * MIB], start=[0, 1], end=[1, 3], ticks=2)
    lines = advice.while_replaying(plan(own), own).splitlines()
    assert lines[1] == "The largest of the 2 blocks at the plan's peak:"
    assert lines[2].split() == ["7.00", "MiB", "request", "1"]


def test_no_more_than_ten_blocks():
    own = Profile.from_columns(
        size=np.arange(1, 31) * MIB, start=np.arange(30), end=[30] * 30, ticks=30
    )
    lines = advice.while_replaying(plan(own), own).splitlines()
    assert "of the 30 blocks" in lines[1]
    assert [line.split()[0] for line in lines[2:-2]] == [f"{n}.0" for n in range(30, 20, -1)]


def test_advice_follows_the_phases(adapter):
    loop = Loop(adapter, LAYERS)
    with open_session(adapter) as session:
        assert adapter.advice == advice.while_recording(pages=False)
        run(loop, session, 6)
        assert adapter.advice == advice.while_replaying(session.plan, session.profile)
        # A structure is learned while another one is served: the advice must not be to wait.
        loop.drop()
        other = Loop(adapter, [1000 * (at + 1) for at in range(9)])
        for _ in range(12):
            run(other, session, 1)
            assert adapter.advice.startswith("The plan needs")
        assert Phase.RECORD in [one.phase for one in session.history[6:]]


def test_a_session_without_further_recordings_is_not_said_to_be_recording(adapter):
    with open_session(adapter, record_only=True) as session:
        run(Loop(adapter, LAYERS), session, 6)
        assert session.phase == "bypass"
        assert adapter.advice.startswith("pgmo has no plan for this program: the session was")
    with open_session(adapter) as session:
        with pytest.warns(UserWarning, match="allocate nothing"):
            for _ in range(6):
                session.step()
        assert adapter.advice.startswith("pgmo has no plan for this program: the recorded iter")


@pytest.mark.parametrize("pages", [False, True])
def test_while_recording_a_plan_is_proposed_where_no_pages_serve(adapter, pages):
    adapter.pages = pages
    with open_session(adapter):
        assert ("fragmented" in adapter.advice) is not pages
        assert ("plan=" in adapter.advice) is not pages
        assert ("smaller batch" in adapter.advice) is pages


def test_a_program_without_a_plan_is_not_said_to_be_recorded(adapter):
    with open_session(adapter) as session:
        addresses = []
        for _ in range(5):
            with session.iteration():
                addresses.append(adapter.request(64))
        assert session.phase == "backoff"
        assert adapter.advice.startswith(
            "pgmo has no plan for this program: its blocks are never freed, or are shared by "
        )
    for address in addresses:
        adapter.free(address)
