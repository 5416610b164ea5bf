"""Sessions that only record, and profiles of sessions at any moment."""

from pgmo.allocator.session.statistics import Phase
from tests.unit.allocator.simulated import LAYERS, Loop, open_session, run


def test_nothing_is_planned_or_served(adapter):
    loop = Loop(adapter, LAYERS)
    with open_session(adapter, record_only=True) as session:
        run(loop, session, 10)
        assert session.phase is Phase.BYPASS
    assert session.plan is None
    assert session.summary().replayed == 0
    assert session.summary().recorded == 4
    assert session.summary().arena == 0


def test_the_profile_is_that_of_a_session_that_replays(adapter):
    loop = Loop(adapter, LAYERS)
    with open_session(adapter, record_only=True) as session:
        run(loop, session, 6)
    only = session.profile
    loop = Loop(adapter, LAYERS)
    with open_session(adapter) as session:
        run(loop, session, 6)
    assert only.fingerprint == session.profile.fingerprint
    assert only.steady


def test_an_unfinished_recording_is_a_line(adapter):
    loop = Loop(adapter, LAYERS)
    with open_session(adapter) as session:
        assert session.recording is None
        run(loop, session, 1)
        kept = adapter.request(12345)
        line = session.recording
        assert not line.circular
        assert line.size[-1] == 12345
        assert line.end[-1] == line.ticks == len(line)
        assert line.meta.device == session.device == adapter.device
        adapter.free(kept)
    assert session.recording is None
