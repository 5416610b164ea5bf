"""Life of a session on a simulated framework."""

import numpy as np
import pytest

from pgmo.allocator.session.statistics import Phase
from pgmo.errors import SessionError
from tests.unit.allocator.simulated import LAYERS, Loop, open_session, run


def test_wrapping_and_doubly_live_blocks_are_distinguished(adapter):
    loop = Loop(adapter, LAYERS)
    with open_session(adapter) as session:
        run(loop, session, 6)
    profile = session.profile
    doubly = np.flatnonzero(profile.turns == 2)
    assert profile.size[doubly].tolist() == [4]  # the loss
    # Gradients and the first activation are freed before the next iteration's first request.
    assert np.count_nonzero(profile.end == profile.ticks) == len(LAYERS) + 1


def test_inserted_requests_cost_only_themselves(adapter):
    loop = Loop(adapter, LAYERS)

    def log():
        for size in (4, 4, 512):
            adapter.free(adapter.request(size))

    with open_session(adapter) as session:
        run(loop, session, 6)
        run(loop, session, 1, extra=log)
        run(loop, session, 1)
    assert session.history[6].requests - session.history[6].hits <= 3
    assert session.history[7].hit_rate == 1


@pytest.mark.filterwarnings("ignore:pgmo. iterations do not follow")
def test_a_program_that_turns_into_another_is_recorded_again(adapter):
    loop = Loop(adapter, LAYERS)
    with open_session(adapter) as session:
        run(loop, session, 6)
        loop.drop()
        other = Loop(adapter, [1000 * (layer + 1) for layer in range(9)])
        run(other, session, 9)
        phases = [one.phase for one in session.history[6:]]
        assert phases == [Phase.REPLAY] * 2 + [Phase.RECORD] * 5 + [Phase.REPLAY] * 2
        assert session.history[-1].hit_rate == 1
        other.drop()
        # The first structure returns, whose plan still exists.
        run(loop, session, 2)
        assert session.history[-1].known_rate == 1
        loop.finish()
        other.finish()


def test_longer_length_costs_one_replan(adapter):
    loop = Loop(adapter, LAYERS)
    with open_session(adapter) as session:
        for scale in (3, 5, 2, 4, 1, 5):
            loop.scale = scale
            run(loop, session, 1)
        before = session.plan.arena
        loop.scale = 8
        run(loop, session, 1)
        assert session.history[-1].misses["too_large"] > 0
        for scale in (8, 1, 7, 8):
            loop.scale = scale
            run(loop, session, 1)
        assert session.summary().replans == 1
        assert session.plan.arena > before
        assert all(one.hit_rate == 1 for one in session.history[-3:])


def test_a_program_that_never_repeats_gets_no_arena_and_is_hardly_recorded(adapter):
    random = np.random.default_rng(0)
    with open_session(adapter) as session:
        for _ in range(200):
            with session.iteration():
                sizes = random.integers(1, 1 << 20, size=random.integers(10, 30))
                for address in [adapter.request(int(size)) for size in sizes]:
                    adapter.free(address)
        assert not adapter.arenas
        assert session.summary().waits == "its iterations do not repeat"
        assert session.summary().recorded < 40


def test_exception_while_recording_starts_the_recording_again(adapter):
    loop = Loop(adapter, LAYERS)
    with open_session(adapter) as session:
        run(loop, session, 2)
        with pytest.raises(RuntimeError, match="boom"), session.iteration():
            adapter.free(adapter.request(64))
            raise RuntimeError("boom")
        run(loop, session, 6)
    assert session.history[-1].hit_rate == 1
    assert len(session.profile) == 3 * len(LAYERS) + 1


def test_decorated_function_is_one_iteration_a_call(adapter):
    loop = Loop(adapter, LAYERS)

    @open_session(adapter)
    def train_step(times: int = 1) -> str:
        """Run one iteration."""
        for _ in range(times):
            loop()
        return "done"

    assert train_step.__doc__ == "Run one iteration."
    assert [train_step() for _ in range(6)] == ["done"] * 6
    assert train_step.session.history[-1].hit_rate == 1
    train_step.close()
    assert not adapter.installed
    with pytest.raises(SessionError, match="has been closed"):
        train_step()


def test_iterations_that_come_again_are_counted_like_all_others(adapter):
    """Passed iterations must be counted in sums and in the history like inspected ones."""
    loop = Loop(adapter, LAYERS)
    with open_session(adapter) as session:
        run(loop, session, 400)
        first, again = session.summary(), session.history
        assert first.iterations == len(again) == 400
        assert again[-1] == again[-100] == again[-50]
        run(loop, session, 50)
        loop.scale = 2
        run(loop, session, 3)
        loop.scale = 1
        run(loop, session, 50)
        summary, history = session.summary(), session.history
        loop.finish()
    assert summary.iterations == len(history) == 503
    replayed = [one for one in history if one.phase is Phase.REPLAY]
    assert summary.replayed == len(replayed)
    for name in ("requests", "hits", "bytes_requested", "bytes_hit"):
        assert getattr(summary, name) == sum(getattr(one, name) for one in replayed)
    assert summary.run_bytes == sum(one.bytes_requested for one in history)
    assert summary.run_bytes_hit == sum(one.bytes_hit for one in history)
    assert summary.misses == {
        reason: sum(one.misses[reason] for one in replayed) for reason in summary.misses
    }
    assert [one.requests for one in history[-50:]] == [again[-1].requests] * 50
