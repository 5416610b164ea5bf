"""Where memory comes when it is touched, iterations are served while they are recorded."""

import pytest

from tests.unit.allocator.simulated import LAYERS, Loop, open_session, run


@pytest.fixture
def lazy(adapter):
    adapter.lazy = True
    return adapter


def test_the_third_iteration_comes_from_slots(lazy):
    loop = Loop(lazy, LAYERS)
    with open_session(lazy) as session:
        run(loop, session, 3)
        last = session.history[-1]
        assert last.phase.value == "record"
        assert last.hit_bytes_rate > 0.5  # nobody knows yet how long gradients live
        loop.finish()


@pytest.mark.parametrize("lengths", [(8, 6), (6, 8), (6, 11)])
def test_where_lengths_differ_the_second_does(lazy, lengths):
    loop = Loop(lazy, LAYERS)
    with open_session(lazy) as session:
        for loop.scale in lengths:
            run(loop, session, 1)
        last = session.history[-1]
        assert last.phase.value == "record"
        assert last.hit_bytes_rate > 0.7
        loop.finish()


def test_what_other_iterations_show_takes_the_place_of_guesses(lazy):
    loop = Loop(lazy, LAYERS)
    with open_session(lazy) as session:
        for loop.scale in (8, 6, 7, 5):
            run(loop, session, 1)
            if len(session.history) == 3:
                (plan,) = session._lifecycle._plans.all
                assert not plan.plan.varying[plan.plan.size == 4].any()  # the loss
        last = session.history[-1]
        assert last.phase.value == "record"
        assert last.hit_bytes_rate > 0.7
        loop.finish()


def test_an_arena_that_is_resident_at_once_is_not_taken_for_it(adapter):
    loop = Loop(adapter, LAYERS)
    with open_session(adapter) as session:
        run(loop, session, 3)
        assert not adapter.arenas[0]
        loop.finish()


def test_where_programs_take_turns_no_arena_is_touched_for_each(lazy):
    """A generator's step asks for more than a discriminator's, in another order."""
    one, other = Loop(lazy, LAYERS), Loop(lazy, [size + 512 for size in LAYERS[::-1]] * 2)
    with open_session(lazy, max_record_iterations=8) as session:
        for loop in (one, other, one, other, one):
            run(loop, session, 1)
        last = session.history[-1]
        assert not last.bytes_hit
        one.finish()
        other.finish()
