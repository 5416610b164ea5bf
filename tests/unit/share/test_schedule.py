"""Tests of the schedule in simulated time, with the oracle."""

import pytest

from pgmo.share.member import Member
from pgmo.share.schedule import Rules, TurnSchedule
from tests.unit.share.oracle import Oracle
from tests.unit.share.simulated import MIB, TOTAL, Program, World, busy_world


def run(*programs, until=100.0, rules=None):
    world = World(0, rules or Rules())
    made = [Program(world, **fields) for fields in programs]
    world.run(until)
    summary = world.summary()
    assert summary.wrong == []
    return world, made


def at_once(world):
    """Return the most turns at a time, once each program has given its first turn back."""
    running, most, seen = set(), 0, set()
    for record in world.log:
        if record["event"] == "turn":
            running.add(record["client"])
        elif record["event"] == "give":
            running.discard(record["client"])
            seen.add(record["client"])
        if len(seen) == len(world.programs):
            most = max(most, len(running))
    return most


BIG = {"lasting": 100 * MIB, "need": 700 * MIB}
SMALL = {"lasting": 50 * MIB, "need": 200 * MIB}


def test_two_clients_that_do_not_fit_have_one_turn_at_a_time():
    world, (one, other) = run(BIG, BIG)
    assert at_once(world) == 1
    assert world.schedule.crowded
    assert one.turns >= 40
    assert abs(one.turns - other.turns) <= 1


def test_clients_that_fit_have_turns_at_once_and_keep_their_arenas():
    world, programs = run(SMALL, SMALL, SMALL)
    assert at_once(world) == 3
    assert not world.schedule.crowded
    assert all(one.idle == one.need or one.in_turn for one in programs)


def test_there_are_as_many_lanes_as_the_card_has_room_for():
    world, _ = run(*[{"lasting": 20 * MIB, "need": 350 * MIB, "pause": 0.0}] * 4)
    assert at_once(world) == 2
    world, _ = run(*[SMALL] * 3, rules=Rules(lanes=1))
    assert at_once(world) == 1


def test_a_lone_client_releases_idle_memory_when_another_joins():
    world = World(0, Rules())
    one = Program(world, **BIG, pause=1000.0)  # such as an idle notebook
    world.run(50.0)
    assert one.idle
    other = Program(world, **BIG)
    world.run(60.0)
    assert one.idle == 0
    assert other.turns >= 8
    assert world.summary().wrong == []


def test_time_is_shared_and_not_turns():
    _, (long, short) = run({**BIG, "seconds": 3.0}, {**BIG, "seconds": 1.0, "pause": 0.0})
    assert short.turns >= 2.0 * long.turns
    assert long.turns * 3.0 >= 25


def test_priorities_double_the_share():
    _, (low, high) = run({**BIG, "pause": 0.0}, {**BIG, "pause": 0.0, "priority": 1}, until=300)
    assert 1.5 <= high.turns / low.turns <= 2.5


def test_a_hanging_client_is_passed_over_and_keeps_its_memory():
    world = World(0, Rules(deadline=10.0))
    hung = Program(world, **BIG, seconds=1e9)
    world.run(2.0)
    other = Program(world, lasting=10 * MIB, need=100 * MIB)
    world.run(60.0)
    assert other.turns >= 30
    (late,) = [one for one in world.log if one["event"] == "overdue"]
    assert (late["client"], late["t"]) == (hung.number, pytest.approx(10.0, abs=1.0))
    shown = {one["pid"]: one["state"] for one in world.schedule.status(world.now)["members"]}
    assert shown[hung.number] == "overdue"
    assert world.summary().wrong == []


def test_the_schedule_waits_for_idle_memory_until_the_deadline():
    world = World(0, Rules(deadline=10.0))
    one = Program(world, **BIG, pause=1000.0)
    world.run(5.0)
    one.hung = True
    other = Program(world, **BIG)
    world.run(14.0)
    assert other.turns == 0
    world.run(30.0)
    assert other.turns >= 5
    assert world.summary().wrong == []


def test_a_lost_client_returns_its_turn_when_its_memory_is_gone():
    schedule = TurnSchedule("GPU-1", Rules())
    for number in (1, 2):
        schedule.join(Member(number, number, "p", 0, 600 * MIB, 0, 0.0), TOTAL, 0)
    schedule.ask(1, 0.0)
    assert [one["event"] for one in schedule.ask(2, 1.0)] == ["ask"]
    assert [one["event"] for one in schedule.lose(1, 2.0)] == ["lost"]
    assert schedule.status(2.0)["members"][0]["state"] == "lost"
    assert [one["event"] for one in schedule.leave(1, 3.0)] == ["gone", "crowded", "turn"]


def test_the_schedule_waits_for_a_lost_client_until_the_deadline():
    schedule = TurnSchedule("GPU-1", Rules(deadline=10.0))
    for number in (1, 2):
        schedule.join(Member(number, number, "p", 0, 600 * MIB, 0, 0.0), TOTAL, 0)
    schedule.ask(1, 0.0)
    schedule.ask(2, 0.0)
    schedule.lose(1, 1.0)
    assert schedule.next_tick() == 11.0
    assert [one["event"] for one in schedule.tick(11.0)] == ["late", "turn"]


def test_a_turn_that_was_squeezed_does_not_make_a_need_smaller():
    schedule = TurnSchedule("GPU-1", Rules(deadline=10.0))
    for number in (1, 2):
        schedule.join(Member(number, number, "p", 0, 100 * MIB, 0, 0.0), TOTAL, 900 * MIB)
        schedule.ask(number, 0.0)
        sizes = {"held": 100 * MIB, "idle": 0, "free": 800 * MIB}
        schedule.give(number, 1.0, need=700 * MIB, **sizes)
    schedule.ask(1, 2.0)
    schedule.tick(20.0)  # client 1 is overdue
    schedule.ask(2, 20.0)
    schedule.give(2, 21.0, need=5 * MIB, **sizes)
    assert schedule.members[2].need == 700 * MIB


def test_a_client_behind_a_passed_one_has_its_turn_at_once():
    schedule = TurnSchedule("GPU-1", Rules(deadline=1000.0, patience=50.0))
    needs = {1: 500 * MIB, 2: 700 * MIB, 3: 100 * MIB}
    for number, need in needs.items():
        schedule.join(Member(number, number, "p", 0, 0, 0, 0.0), TOTAL, TOTAL)
        schedule.ask(number, 0.0)
        schedule.give(number, 0.0, held=0, idle=0, need=need, free=TOTAL)
    schedule.ask(1, 1.0)
    schedule.ask(2, 2.0)  # no room beside client 1
    schedule.ask(3, 3.0)
    assert [one.began for one in schedule.members.values()] == [1.0, None, None]
    events = [(one["event"], one["client"]) for one in schedule.tick(52.0)]
    assert events == [("pass", 2), ("turn", 3)]


def test_others_memory_counts():
    schedule = TurnSchedule("GPU-1", Rules())
    schedule.join(Member(1, 1, "p", 0, 100 * MIB, 0, 0.0), TOTAL, free=300 * MIB)
    assert schedule.foreign == 600 * MIB
    schedule.join(Member(2, 2, "p", 0, 50 * MIB, 0, 0.0), TOTAL, free=250 * MIB)
    for number in (1, 2):
        schedule.ask(number, 0.0)
        schedule.give(number, 1.0, held=50 * MIB, idle=0, need=150 * MIB, free=300 * MIB)
    assert schedule.crowded  # 2 x 200 MiB fit into 1000, but not beside 600 of others


@pytest.mark.parametrize("seed", range(40))
def test_the_oracle_finds_no_error_in_random_schedules(seed):
    world = busy_world(seed)
    summary = world.summary()
    assert summary.wrong == []
    assert summary.turns > 20


def _forgets_overdue_pages(schedule):
    schedule._has_room = lambda head, running: len(running) < 2


def _does_not_wait_for_recalls(schedule):
    original = schedule._has_room

    def has_room(head, running):
        for one in schedule.members.values():
            one.recalled = None
        return original(head, running)

    schedule._has_room = has_room


def _never_passes(schedule):
    original = schedule.tick
    schedule.tick = lambda now: [one for one in original(now) if one["event"] != "pass"]


def _gives_two_turns(schedule):
    original = schedule._begin

    def begin(member, now):
        record = original(member, now)
        member.began = None
        return record

    schedule._begin = begin


@pytest.mark.parametrize(
    "mutate",
    [_forgets_overdue_pages, _does_not_wait_for_recalls, _never_passes, _gives_two_turns],
)
def test_the_oracle_notices(mutate):
    def make(card, rules):
        schedule = TurnSchedule(card, rules)
        mutate(schedule)
        return schedule

    assert any(busy_world(seed, make).summary().wrong for seed in range(40))


def test_the_oracle_misses_no_line():
    lines = [
        {"n": 1, "t": 0.0, "event": "begin", "patience": 1.0},
        {"n": 3, "t": 0.0, "event": "end"},
    ]
    assert Oracle().read(lines).wrong == ["line 3: follows line 1"]
