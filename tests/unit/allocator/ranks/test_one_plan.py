"""Plans through a store: who makes them, what is taken, and how long anybody waits."""

import threading
import zlib
from dataclasses import replace

import numpy as np
import pytest

from pgmo.allocator.ranks import one_plan
from pgmo.allocator.ranks.courier import Courier, UnreachableError
from pgmo.allocator.ranks.one_plan import Shared, key, plan_once
from pgmo.packing.plan_file import pack_plan
from pgmo.packing.planner import plan_profile
from pgmo.packing.planning_options import PlanningOptions
from pgmo.profiler.profile import Profile

OPTIONS = PlanningOptions(effort="fast", alignment=64)


class Store:
    """Has the methods of a `torch.distributed.Store` that are used, and a number of holds."""

    def __init__(self):
        self.values = {}
        self.stuck = threading.Event()
        self.stuck.set()

    def add(self, name, number):
        self.stuck.wait()
        self.values[name] = self.values.get(name, 0) + number
        return self.values[name]

    def set(self, name, value):
        self.stuck.wait()
        self.values[name] = value

    def check(self, names):
        self.stuck.wait()
        return all(name in self.values for name in names)

    def get(self, name):
        return self.values[name]


@pytest.fixture
def store(monkeypatch):
    made = Store()
    post = Courier(made)
    monkeypatch.setattr(one_plan, "courier", lambda: post)
    monkeypatch.setattr(one_plan, "counted", Shared())
    monkeypatch.setattr(one_plan, "PATIENCE", 0.1)
    monkeypatch.setattr(one_plan, "ANSWER", 0.1)
    yield made
    made.stuck.set()


def profile(**columns):
    given = {"size": [64, 128, 64], "start": [0, 1, 2], "end": [2, 3, 4], "ticks": 3}
    return Profile.from_columns(**{**given, **columns})


def made(times):
    def make():
        times.append(1)
        return plan_profile(profile(), OPTIONS)

    return make


def test_the_second_takes_what_the_first_has_made(store):
    times = []
    plans = [plan_once(profile(), OPTIONS, made(times)) for _ in range(2)]
    assert len(times) == 1
    assert (one_plan.counted.given, one_plan.counted.taken) == (1, 1)
    assert np.array_equal(plans[0].offset, plans[1].offset)


def test_other_requests_or_options_are_another_plan():
    names = {
        key(profile(), OPTIONS),
        key(profile(size=[64, 128, 32]), OPTIONS),
        key(profile(varying=[True, False, False]), OPTIONS),
        key(profile(), replace(OPTIONS, alignment=512)),
        key(profile(), replace(OPTIONS, effort="best")),
    }
    assert len(names) == 5


def test_a_few_blocks_may_be_freed_at_another_tick(store):
    size, start = [64] * 40, list(range(40))
    ends = [at + 1 for at in start]
    first = profile(size=size, start=start, end=ends, ticks=40)
    plan = plan_once(first, OPTIONS, lambda: plan_profile(first, OPTIONS))
    for count, same in ((2, True), (3, False)):
        late = profile(size=size, start=start, end=[9] * count + ends[count:], ticks=40)
        got = plan_once(late, OPTIONS, lambda late=late: plan_profile(late, OPTIONS))
        assert np.array_equal(got.end, plan.end) == same


def _other_plan():
    return pack_plan(plan_profile(profile(size=[64, 128, 32]), OPTIONS))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"nonsense",
        zlib.compress(b"nonsense"),
        zlib.compress(bytes(1 << 26)),
        zlib.compress(_other_plan()),
        zlib.compress(_other_plan()[:-1]),
    ],
)
def test_what_is_no_plan_of_these_requests_is_not_taken(store, data):
    name = key(profile(), OPTIONS)
    store.values = {f"{name}/claims": 1, f"{name}/plan": data}
    times = []
    plan_once(profile(), OPTIONS, made(times))
    assert len(times) == 1
    assert one_plan.counted.taken == 0


def test_a_plan_that_never_comes_is_waited_for_once(store):
    store.values = {f"{key(profile(), OPTIONS)}/claims": 1}
    times = []
    plan_once(profile(), OPTIONS, made(times))
    assert "has not come within 0.1 s" in one_plan.counted.alone
    store.values.clear()
    plan_once(profile(), OPTIONS, made(times))
    assert len(times) == 2
    assert store.values == {}  # nothing is asked any more


def test_a_store_that_does_not_answer_is_waited_for_once(store):
    store.stuck.clear()
    times = []
    plan_once(profile(), OPTIONS, made(times))
    plan_once(profile(), OPTIONS, made(times))
    assert len(times) == 2
    assert one_plan.counted.alone


def test_a_planner_that_fails_tells_the_others(store):
    def fail():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        plan_once(profile(), OPTIONS, fail)
    times = []
    plan_once(profile(), OPTIONS, made(times))
    assert len(times) == 1
    assert one_plan.counted.alone == ""


def test_a_store_that_fails_is_not_asked_again():
    store = Store()
    store.get = lambda name: 1 // 0
    post = Courier(store)
    with pytest.raises(UnreachableError):
        post.ask(lambda one: one.get("x"), seconds=1)
    with pytest.raises(UnreachableError):
        post.ask(lambda one: one.add("x", 1), seconds=1)
    assert store.values == {}
