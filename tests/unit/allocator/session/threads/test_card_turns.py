"""Turns of several sessions on one device."""

import threading

import pytest

from pgmo import _core
from pgmo.allocator.session.threads.card_turns import PASSED_OVER, CardSeat, CardTurns
from pgmo.allocator.session.threads.pauses import Pauses
from pgmo.errors import SessionError


class Seat(CardSeat):
    """Notes when its turns begin and end."""

    def __init__(self, turns, inside=None):
        self.told, self.said = [], []
        super().__init__(None, turns, lambda: inside, self.said.append, Pauses(_core.Engine()))

    def begin(self, *, after_others):
        self.told.append("after others" if after_others else "again")

    def end(self):
        self.told.append("end")


def joined(turns, count=2):
    return [Seat(turns) for _ in range(count)]


def on_a_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_one_at_a_time_and_in_the_order_of_asking():
    turns, order = CardTurns(), []
    seats = joined(turns, 4)
    assert seats[0].take()
    asked = threading.Semaphore(0)

    def work(number):
        asked.release()
        assert seats[number].take()
        order.append(number)
        seats[number].give()

    threads = []
    for number in (1, 2, 3):
        threads.append(on_a_thread(lambda number=number: work(number)))
        asked.acquire()
        while len(turns.waiting) < number:
            pass
    assert order == []
    seats[0].give()
    for thread in threads:
        thread.join()
    assert order == [1, 2, 3]


def test_a_seat_is_told_whether_others_came_between():
    turns = CardTurns()
    first, second = joined(turns)
    for seat in (first, first, second, first):
        seat.take()
        seat.give()
    others, again = ["after others", "end"], ["again", "end"]
    assert first.told == ["end", *others, *again, *others]
    assert second.told == ["end", *others]


def test_nobody_waits_beyond_the_deadline():
    turns = CardTurns(deadline=0.05)
    first, second = joined(turns)
    assert first.take()
    found = []
    on_a_thread(lambda: found.append(second.take())).join()
    assert found == [False]
    assert second.said == [PASSED_OVER.format(turns.deadline)]
    assert first.held
    first.give()
    assert second.take()


def test_a_thread_that_has_ended_keeps_no_turn():
    turns = CardTurns()
    first, second = joined(turns)
    on_a_thread(lambda: first.take()).join()
    assert second.take()
    assert first.told[-1] == "end"


def test_one_thread_cannot_have_two_turns():
    turns = CardTurns()
    first, second = joined(turns)
    first.take()
    with pytest.raises(SessionError, match=r"put session.iteration\(\) around each"):
        second.take()


def test_an_iteration_that_goes_on_is_a_turn_when_another_session_opens():
    turns = CardTurns(deadline=0.05)
    first, second = Seat(turns, threading.current_thread()), Seat(turns)
    assert first.held
    assert "end" not in first.told
    found = []
    on_a_thread(lambda: found.append(second.take())).join()
    assert found == [False]


def test_who_leaves_gives_the_turn_back():
    turns = CardTurns()
    first, second = joined(turns)
    first.take()
    first.leave()
    assert second.take()
    assert turns.seats == [second]
