"""Turns of several sessions on one device."""

import threading

import pytest

from pgmo.allocator.session.threads.card_turns import CardTurns
from pgmo.errors import SessionError


class Seat:
    """Notes what it is told."""

    def __init__(self, inside=None):
        self.told = []
        self.inside = inside

    def running(self):
        return self.inside

    def begin(self, *, after_others):
        self.told.append("after others" if after_others else "again")

    def end(self):
        self.told.append("end")


def joined(turns, count=2):
    seats = [Seat() for _ in range(count)]
    for seat in seats:
        turns.join(seat)
    return seats


def on_a_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_one_at_a_time_and_in_the_order_of_asking():
    turns, order = CardTurns(), []
    seats = joined(turns, 4)
    assert turns.take(seats[0])
    asked = threading.Semaphore(0)

    def work(number):
        asked.release()
        assert turns.take(seats[number])
        order.append(number)
        turns.give(seats[number])

    threads = []
    for number in (1, 2, 3):
        threads.append(on_a_thread(lambda number=number: work(number)))
        asked.acquire()
        while len(turns._waiting) < number:
            pass
    assert order == []
    turns.give(seats[0])
    for thread in threads:
        thread.join()
    assert order == [1, 2, 3]


def test_a_seat_is_told_whether_others_came_between():
    turns = CardTurns()
    first, second = joined(turns)
    for seat in (first, first, second, first):
        turns.take(seat)
        turns.give(seat)
    others, again = ["after others", "end"], ["again", "end"]
    assert first.told == ["end", *others, *again, *others]
    assert second.told == ["end", *others]


def test_nobody_waits_beyond_the_deadline():
    turns = CardTurns(deadline=0.05)
    first, second = joined(turns)
    assert turns.take(first)
    found = []
    on_a_thread(lambda: found.append(turns.take(second))).join()
    assert found == [False]
    assert turns.holds(first)
    turns.give(first)
    assert turns.take(second)


def test_a_thread_that_has_ended_keeps_no_turn():
    turns = CardTurns()
    first, second = joined(turns)
    on_a_thread(lambda: turns.take(first)).join()
    assert turns.take(second)
    assert first.told[-1] == "end"


def test_one_thread_cannot_have_two_turns():
    turns = CardTurns()
    first, second = joined(turns)
    turns.take(first)
    with pytest.raises(SessionError, match=r"put session.iteration\(\) around each"):
        turns.take(second)


def test_an_iteration_that_goes_on_is_a_turn_when_another_session_opens():
    turns = CardTurns(deadline=0.05)
    first, second = Seat(inside=threading.current_thread()), Seat()
    turns.join(first)
    turns.join(second)
    assert turns.holds(first)
    assert "end" not in first.told
    found = []
    on_a_thread(lambda: found.append(turns.take(second))).join()
    assert found == [False]


def test_who_leaves_gives_the_turn_back():
    turns = CardTurns()
    first, second = joined(turns)
    turns.take(first)
    turns.leave(first)
    assert turns.take(second)
    assert not turns.shared
