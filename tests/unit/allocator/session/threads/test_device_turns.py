"""Turns of several sessions on one device."""

import threading

import pytest

from pgmo import _core
from pgmo.allocator.session.threads.device_turns import PASSED_OVER, DeviceTurn, TurnQueue
from pgmo.allocator.session.threads.pauses import Pauses
from pgmo.errors import SessionError


class RecordedTurn(DeviceTurn):
    """Turn that records its beginnings and ends."""

    def __init__(self, queue, inside=None):
        self.calls, self.said = [], []
        super().__init__(None, queue, lambda: inside, self.said.append, Pauses(_core.Engine()))

    def begin(self, *, after_others):
        self.calls.append("after others" if after_others else "again")

    def end(self):
        self.calls.append("end")


def joined(queue, count=2):
    return [RecordedTurn(queue) for _ in range(count)]


def on_a_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_one_at_a_time_and_in_the_order_of_asking():
    queue, order = TurnQueue(), []
    members = joined(queue, 4)
    assert members[0].take()
    asked = threading.Semaphore(0)

    def work(number):
        asked.release()
        assert members[number].take()
        order.append(number)
        members[number].give()

    threads = []
    for number in (1, 2, 3):
        threads.append(on_a_thread(lambda number=number: work(number)))
        asked.acquire()
        while len(queue.waiting) < number:
            pass
    assert order == []
    members[0].give()
    for thread in threads:
        thread.join()
    assert order == [1, 2, 3]


def test_a_turn_knows_whether_others_came_between():
    queue = TurnQueue()
    first, second = joined(queue)
    for turn in (first, first, second, first):
        turn.take()
        turn.give()
    others, again = ["after others", "end"], ["again", "end"]
    assert first.calls == ["end", *others, *again, *others]
    assert second.calls == ["end", *others]


def test_no_session_waits_beyond_the_deadline():
    queue = TurnQueue(deadline=0.05)
    first, second = joined(queue)
    assert first.take()
    found = []
    on_a_thread(lambda: found.append(second.take())).join()
    assert found == [False]
    assert second.said == [PASSED_OVER.format(queue.deadline)]
    assert first.held
    first.give()
    assert second.take()


def test_a_thread_that_has_ended_keeps_no_turn():
    queue = TurnQueue()
    first, second = joined(queue)
    on_a_thread(lambda: first.take()).join()
    assert second.take()
    assert first.calls[-1] == "end"


def test_one_thread_cannot_have_two_turns():
    queue = TurnQueue()
    first, second = joined(queue)
    first.take()
    with pytest.raises(SessionError, match=r"put session.iteration\(\) around each"):
        second.take()


def test_an_iteration_that_goes_on_is_a_turn_when_another_session_opens():
    queue = TurnQueue(deadline=0.05)
    first, second = RecordedTurn(queue, threading.current_thread()), RecordedTurn(queue)
    assert first.held
    assert "end" not in first.calls
    found = []
    on_a_thread(lambda: found.append(second.take())).join()
    assert found == [False]


def test_a_leaving_session_returns_its_turn():
    queue = TurnQueue()
    first, second = joined(queue)
    first.take()
    first.leave()
    assert second.take()
    assert queue.members == [second]
