"""A plan from a single iteration."""

import numpy as np

from pgmo.allocator.session.learning.early_plan import from_single, lasting_sizes
from pgmo.packing.planning_options import PlanningOptions
from pgmo.profiler.profile import ProfileMeta
from pgmo.profiler.recording import make_events, split
from pgmo.profiler.tag import Tag

PLANNING = PlanningOptions(alignment=512)
META = ProfileMeta(framework="torch")
ACTIVATION, GRADIENT, SUM, STATE = 4096, 8192, 4096, 16384
FORWARD, BACKWARD, ADD, OPTIMIZER = range(4)
TAGS = [
    Tag("net", "aten.mm", "forward"),
    Tag("net", "aten.mm", "backward"),
    Tag("net", "aten.add_", "backward"),
    Tag("", "aten.zeros", "optimizer"),
]


def first(rows, tags):
    """The iteration that makes these events, its requests tagged."""
    iteration = split(make_events([*rows, ("step",)]))[0]
    iteration.tag[:] = tags
    return iteration


def planned(rows, tags):
    return from_single(first(rows, tags), TAGS, META, PLANNING)


def test_gradients_come_again_and_state_does_not():
    rows = [
        ("request", ACTIVATION),
        ("request", GRADIENT),
        ("free", 0),
        ("request", STATE),
        ("request", 512),
        ("free", 3),
    ]
    plan = planned(rows, [FORWARD, BACKWARD, OPTIMIZER, OPTIMIZER]).plan
    assert plan.size.tolist() == [ACTIVATION, GRADIENT, 512]
    assert (plan.offset >= 0).tolist() == [True, False, True]  # nobody knows when it dies


def test_a_life_is_counted_in_requests_that_come_again():
    rows = [
        ("request", ACTIVATION),
        ("request", STATE),
        ("request", STATE),
        ("request", 512),
        ("free", 0),
        ("free", 3),
        ("request", 1024),
        ("free", 4),
    ]
    plan = planned(rows, [FORWARD, OPTIMIZER, OPTIMIZER, FORWARD, FORWARD]).plan
    assert plan.size.tolist() == [ACTIVATION, 512, 1024]
    assert plan.end.tolist() == [2, 2, 3]


def test_sums_are_made_in_place_where_nobody_watches():
    """The older summand stays, and the newer one dies, as autograd has it without a mode."""
    rows = [
        ("request", SUM),  # has summed up what came before
        ("request", SUM),
        ("request", SUM),  # of both
        ("free", 0),
        ("free", 1),
        ("request", 512),
        ("free", 2),
        ("free", 3),
    ]
    plan = planned(rows, [BACKWARD, BACKWARD, ADD, BACKWARD]).plan
    assert plan.size.tolist() == [SUM, SUM, 512]
    assert plan.end.tolist() == [3, 2, 3]


def test_a_sum_whose_summands_live_on_is_a_request_like_any_other():
    rows = [("request", SUM), ("request", SUM), ("request", SUM), ("request", 512)]
    rows += [("free", at) for at in range(4)]
    plan = planned(rows, [BACKWARD, BACKWARD, ADD, BACKWARD]).plan
    assert plan.size.tolist() == [SUM, SUM, SUM, 512]


def test_nothing_is_planned_where_nothing_is_freed():
    assert planned([("request", STATE)], [OPTIMIZER]) is None


def test_without_tags_only_what_has_died_is_expected():
    rows = [("request", ACTIVATION), ("request", GRADIENT), ("free", 0)]
    plan = from_single(first(rows, [-1, -1]), (), META, PLANNING).plan
    assert plan.size.tolist() == [ACTIVATION]
    assert np.all(plan.offset >= 0)


def test_of_later_iterations_all_comes_again():
    """What they leave alive lives as long as what the one before has left."""
    rows = [
        ("request", ACTIVATION),
        ("request", GRADIENT),
        ("free", 0),
        ("request", STATE),
        ("step",),
        ("request", ACTIVATION),
        ("request", 512),
        ("free", 1),  # the gradient, before the next one
        ("request", GRADIENT),
        ("free", 3),
        ("request", 1024),
        ("step",),
    ]
    before, latest = split(make_events(rows))
    plan = from_single(latest, (), META, PLANNING, before=before).plan
    assert plan.size.tolist() == [ACTIVATION, 512, GRADIENT, 1024]
    assert (plan.offset >= 0).tolist() == [True, False, True, False]
    assert plan.end.tolist()[2] == 4 + 2


def test_a_sum_that_only_tags_have_made_does_not_tell_when_gradients_die():
    rows = [
        ("request", SUM),
        ("request", SUM),
        ("request", SUM),  # of both
        ("free", 0),
        ("free", 1),
        ("request", 512),
        ("step",),
        ("request", SUM),
        ("free", 2),
        ("request", SUM),
        ("free", 5),
        ("request", 512),
        ("free", 3),
        ("step",),
    ]
    before, latest = split(make_events(rows))
    before.tag[:] = [BACKWARD, BACKWARD, ADD, BACKWARD]
    plan = from_single(latest, TAGS, META, PLANNING, before=before).plan
    assert plan.size.tolist() == [SUM, SUM, 512]
    assert plan.end.tolist()[:2] == [3 + 1, 2]


def test_all_but_the_sizes_of_parameters_may_vary():
    rows = [("request", ACTIVATION), ("request", GRADIENT), ("free", 0), ("request", STATE)]
    one = first(
        [*rows, ("request", GRADIENT), ("free", 3)], [FORWARD, BACKWARD, OPTIMIZER, FORWARD]
    )
    fixed = lasting_sizes(one, TAGS)
    assert fixed.tolist() == [GRADIENT, STATE]
    plan = from_single(one, TAGS, META, PLANNING, fixed).plan
    assert plan.size.tolist() == [ACTIVATION, GRADIENT, GRADIENT]
    assert plan.varying.tolist() == [True, False, True]  # nothing forward is a gradient


def test_a_cache_that_is_left_alive_may_grow():
    one = first([("request", ACTIVATION), ("request", 512), ("free", 0)], [FORWARD, FORWARD])
    assert not len(lasting_sizes(one, TAGS))
    assert lasting_sizes(one, ()).tolist() == [512]  # without tags nobody knows
