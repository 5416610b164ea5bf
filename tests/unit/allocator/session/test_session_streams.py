"""Several streams: an arena for each, taken when the stream is first used."""

import pytest

from pgmo.allocator.session.statistics import Phase
from pgmo.errors import AdapterError
from tests.unit.allocator.simulated import SimulatedAdapter, open_session


class TwoStreams:
    """Loop whose copies run on a second stream, like those of a data loader.

    Args:
        framework: framework that serves the requests.
        side: the second stream.
        shares: whether the main stream also uses a block of the second stream.
    """

    def __init__(self, adapter, side=7, shares=False):
        self.adapter = adapter
        self.side = side
        self.shares = shares
        self.next_batch = None
        self.state = []
        self.batches = []  # addresses, one per iteration

    def __call__(self):
        request, free = self.adapter.request, self.adapter.free
        batch = self.next_batch or request(5000, self.side)
        self.batches.append(batch)
        self.next_batch = request(5000, self.side)  # prefetched: lives into the next iteration
        if self.shares:
            self.adapter.engine.shared(self.next_batch, 0)
        kept = [request(size) for size in (70_000, 900, 20_000)]
        staging = request(300, self.side)
        free(request(64_000))
        for block in (staging, *kept, batch):
            free(block)
        if not self.state:
            self.state = [request(2000)]

    def finish(self):
        for block in (self.next_batch, *self.state):
            self.adapter.free(block)
        self.next_batch, self.state = None, []


def train(loop, session, times):
    for _ in range(times):
        with session.iteration():
            loop()


def test_a_block_that_is_used_on_another_stream_gets_no_slot(adapter):
    loop = TwoStreams(adapter, shares=True)
    with open_session(adapter) as session:
        train(loop, session, 8)
        assert session.profile.shared.sum() == 1
        assert not adapter.served(loop.next_batch)
        last = session.history[-1]
        assert (last.hits, last.requests, last.misses["persistent"]) == (5, 6, 1)


@pytest.fixture
def saved(tmp_path):
    adapter = SimulatedAdapter()
    with open_session(adapter, save=tmp_path, model_name="streams") as session:
        train(TwoStreams(adapter), session, 8)
    return tmp_path / "streams.pgmoplan"


def test_a_stream_that_was_not_used_yet_gets_its_arena_at_the_next_boundary(saved):
    adapter = SimulatedAdapter()
    loop = TwoStreams(adapter)
    with open_session(adapter, plan=saved) as session:
        assert len(adapter.arenas[0]) == 1
        assert adapter.arenas[7] == []
        train(loop, session, 1)
        first = session.history[0]
        assert first.phase is Phase.REPLAY
        assert first.hits > 0  # the default stream's requests are served
        assert first.misses["no_arena"] == 2
        assert len(adapter.arenas[7]) == 1
        train(loop, session, 4)
        assert session.history[-1].hit_rate == 1
        loop.finish()
    taken = [one for arenas in adapter.arenas.values() for one in arenas]
    assert sorted(adapter.returned) == sorted(base for base, _ in taken)


def test_no_memory_for_a_late_stream_leaves_the_others_served(saved, monkeypatch):
    adapter = SimulatedAdapter()
    take = adapter.take_arena

    def refuse(size, stream):
        memory = take(size, stream)
        if memory is not None and stream == 7:
            raise AdapterError("no memory")
        return memory

    monkeypatch.setattr(adapter, "take_arena", refuse)
    loop = TwoStreams(adapter)
    with open_session(adapter, plan=saved) as session:
        train(loop, session, 1)
        assert session.history[0].misses["no_arena"] == 2
        assert session.history[0].hits > 0
        train(loop, session, 3)
        assert session.phase is Phase.REPLAY
        assert session.history[-1].hits == 4  # the default stream's requests
        assert session.history[-1].misses["no_arena"] == 2


def test_an_arena_that_cannot_be_had_gives_back_those_of_other_streams(adapter, monkeypatch):
    take = adapter.take_arena

    def refuse(size, stream):
        if stream == 7:
            raise AdapterError("no memory")
        return take(size, stream)

    monkeypatch.setattr(adapter, "take_arena", refuse)
    with open_session(adapter) as session:
        with pytest.warns(UserWarning, match="could not be allocated: no memory"):
            train(TwoStreams(adapter), session, 6)
        assert session.phase is Phase.BYPASS
        assert adapter.returned == [base for base, _ in adapter.arenas[0]]


def test_an_opening_none_of_whose_streams_was_used_yet(adapter, tmp_path):
    def train(on, session, times):
        kept = None
        for number in range(times):
            with session.iteration():
                if number == 0:
                    kept = on.request(64)
                on.free(on.request(5000, 7))
        on.free(kept)

    with open_session(adapter, save=tmp_path, model_name="side") as session:
        train(adapter, session, 8)
        assert session.history[-1].hit_rate == 1
    fresh = SimulatedAdapter()
    with pytest.warns(UserWarning, match="no stream of the plan has been used yet"):
        with open_session(fresh, plan=tmp_path / "side.pgmoplan") as session:
            train(fresh, session, 4)
    assert [one.hit_rate for one in session.history] == [0, 1, 1, 1]
