"""Arenas of one block, which cannot grow, and programs that grow slowly."""

from tests.unit.allocator.simulated import LAYERS, Loop, open_session, run


def lengths(loop, session, *scales):
    for scale in scales:
        loop.scale = scale
        run(loop, session, 1)


def test_the_longest_iteration_so_far_takes_another_arena(adapter):
    loop = Loop(adapter, LAYERS)
    with open_session(adapter) as session:
        lengths(loop, session, 2, 3, 2, 3, 2, 3, 2, 4)
        assert session.history[-1].hit_bytes_rate < 0.5
        assert len(adapter.arenas[0]) == 2
        loop.finish()


def test_only_what_is_recorded_changes_how_the_framework_allocates(adapter):
    loop = Loop(adapter, LAYERS)
    with open_session(adapter) as session:
        run(loop, session, 1)
        assert adapter.sparing
        run(loop, session, 5)
        assert session.history[-1].hit_rate == 1
        assert not adapter.sparing
        loop.finish()


def test_one_small_request_that_grows_is_no_other_program(adapter):
    loop = Loop(adapter, [1 << 20] * 8)
    with open_session(adapter) as session:
        for number in range(70):
            # More than a plan's spare room, and more often than plans are made.
            size = int(16 * 1.1**number)
            run(loop, session, 1, extra=lambda size=size: adapter.free(adapter.request(size)))
        assert [one.phase.value for one in session.history].count("record") < 8
        assert session.history[-1].hit_bytes_rate > 0.999
        loop.finish()
