"""On the CPU malloc keeps what was freed: when it is asked to return that."""

import pytest

from tests.unit.allocator.simulated import LAYERS, Loop, open_session, run


@pytest.fixture
def trims(adapter, monkeypatch):
    """The iterations that have ended when idle memory is returned, one entry a time."""
    adapter.lazy = True
    found = []
    monkeypatch.setattr(adapter, "empty_cache", lambda *, pages=False: found.append(adapter.ended))
    return found


def each(adapter, loop, session, times, **kwargs):
    for _ in range(times):
        adapter.ended += 1
        run(loop, session, 1, **kwargs)


@pytest.fixture
def ended(adapter):
    adapter.ended = 0
    return adapter


def test_it_is_after_an_iteration_of_which_much_came_from_elsewhere_and_after_the_next(
    ended, trims
):
    loop = Loop(ended, LAYERS)

    def pictures():
        for address in [ended.request(300_000) for _ in range(6)]:
            ended.free(address)

    with open_session(ended) as session:
        each(ended, loop, session, 12)
        trims.clear()
        each(ended, loop, session, 1, extra=pictures)
        assert session.history[-1].hit_bytes_rate < 0.9
        each(ended, loop, session, 6)
        assert session.history[-1].hit_bytes_rate == 1
        assert set(trims) == {13, 14}
        loop.finish()
