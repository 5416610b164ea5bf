"""Turns of sessions whose loops also pause."""

from pgmo import _core
from pgmo.allocator.session.threads.device_turns import DeviceTurn, TurnQueue
from pgmo.allocator.session.threads.pauses import Pauses
from pgmo.allocator.session.threads.turns import Turns


class Adapter:
    def __init__(self):
        self.engine = _core.Engine()
        self.engine.start_recording()

    def serves(self):
        return self.engine.adopt(4096, 64)


def test_a_pause_that_ends_while_another_session_has_the_turn_serves_no_session():
    adapter, said = Adapter(), []
    paused, queue = Pauses(adapter.engine), TurnQueue(deadline=0.0)
    turns = Turns(adapter.engine, said.append, paused)
    turn = DeviceTurn(adapter, queue, turns.running, said.append, paused)
    other = Adapter()
    DeviceTurn(other, queue, lambda: None, said.append, Pauses(other.engine))
    assert not adapter.serves()
    token = turns.pause()
    turns.resume(token)
    assert not adapter.serves()
    token = turns.pause()
    turn.leave()
    assert not adapter.serves()
    turns.resume(token)
    assert adapter.serves()
