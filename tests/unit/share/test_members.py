"""Tests that a process is one member of a card, no matter how often it connects."""

import errno
import os

import pytest

from pgmo.errors import ShareError
from pgmo.share.handshake import shake_hands
from pgmo.share.member import Member
from pgmo.share.protocol import encode
from pgmo.share.schedule import Rules, TurnSchedule
from tests.unit.share.ground import HELLO, client, drain, members, states, wait_for, wrong


def connected(address, **fields):
    met, _, lines, more = shake_hands(address, HELLO | fields)
    return met, lines, more


def next_message(met, lines):
    messages = []
    while not messages:
        data = met.recv(1 << 16)
        assert data
        messages = lines.feed(data)
    return messages[0]


def test_a_process_that_connects_again_is_one_member_and_gets_its_turn(serve, address):
    serve(one_process=True)
    for _ in range(5):
        met, _, _ = connected(address)
        met.close()
    met, lines, _ = connected(address, held=300)
    (member,) = members(address)
    assert (member["pid"], member["held"]) == (os.getpid(), 300)
    met.sendall(encode("ask", {}))
    assert next_message(met, lines)["kind"] == "turn"
    met.close()


def test_a_second_connection_replaces_the_first(serve, address):
    serve(one_process=True)
    first, lines, _ = connected(address)
    first.sendall(encode("ask", {}))
    assert next_message(first, lines)["kind"] == "turn"
    second, lines, _ = connected(address)
    drain(first)
    assert states(address) == ["between turns"]
    second.sendall(encode("ask", {}))
    assert next_message(second, lines)["kind"] == "turn"
    second.sendall(encode("bye", {}))
    drain(second)
    assert members(address) == []
    first.close()
    second.close()


def test_a_client_that_loses_its_connection_gets_its_turn_again(serve, address):
    serve(one_process=True)
    one = client(address)
    one.take()
    with one._changed:
        one._lose("a test")
    one.give()
    one._next_try = 0.0
    assert one.take().value == "turn"
    assert states(address) == ["turn"]
    one.close()


def test_reconnections_take_no_descriptors(serve, address):
    serve(one_process=True)
    connected(address)[0].close()
    wait_for(lambda: states(address) == ["lost"])
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        connected(address)[0].close()
    wait_for(lambda: states(address) == ["lost"])
    wait_for(lambda: len(os.listdir("/proc/self/fd")) <= before)


def joined(number, pid, **fields):
    values = {"held": 100, "idle": 0, "joined": 0.0} | fields
    return Member(number, pid, "test", 0, **values)


def test_a_member_keeps_its_debt_and_needs_but_not_its_turn():
    schedule = TurnSchedule("GPU-1", Rules())
    records = schedule.join(joined(1, 4711), 1000, 900)
    records += schedule.ask(1, 0.0)
    records += schedule.give(1, 5.0, held=100, idle=0, need=300, free=900)
    records += schedule.ask(1, 6.0)
    records += schedule.lose(1, 7.0)
    fresh = joined(2, 4711, held=200, joined=8.0)
    records += schedule.rejoin(1, fresh, 1000, 800)
    member = schedule.members[1]
    assert list(schedule.members) == [1]
    assert (member.held, member.need, member.debt, member.began) == (200, 300, 5.0, None)
    records += schedule.ask(1, 9.0)
    assert records[-1]["event"] == "turn"
    assert wrong(records) == []


def test_a_client_that_connects_again_is_notified_again_that_the_card_is_crowded():
    schedule = TurnSchedule("GPU-1", Rules())
    records = schedule.join(joined(1, 4711, held=600), 1000, 400)
    records += schedule.join(joined(2, 4712, held=400), 1000, 0)
    crowded = [one["to"] for one in records if one["event"] == "crowded"]
    assert crowded == [1, 2]
    schedule.lose(1, 1.0)
    records = schedule.rejoin(1, joined(3, 4711, held=600, joined=2.0), 1000, 0)
    assert [one["to"] for one in records if one["event"] == "crowded"] == [1]


def test_processes_of_other_namespaces_are_not_taken_for_one():
    schedule = TurnSchedule("GPU-1", Rules())
    schedule.join(joined(1, 0), 1000, 900)
    assert schedule.number_of(0) is None


def test_the_oracle_notices_who_comes_back_without_having_been_lost():
    schedule = TurnSchedule("GPU-1", Rules())
    records = schedule.join(joined(1, 4711), 1000, 900)
    records += schedule.rejoin(1, joined(2, 4711), 1000, 900)
    assert wrong(records) == ["line 3: client 1 came back without having been lost"]


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="takes pidfds")
def test_a_new_process_with_an_old_number_is_another_member(serve, address, monkeypatch):
    broker = serve(one_process=True)
    connected(address)[0].close()
    wait_for(lambda: states(address) == ["lost"])
    monkeypatch.setattr(broker._processes, "has_ended", lambda number: True)
    met = connected(address, held=100)[0]
    (member,) = members(address)
    assert (member["held"], member["turns"]) == (100, 0)
    met.close()


def test_a_process_that_cannot_be_watched_is_refused(serve, address, monkeypatch):
    serve()
    with monkeypatch.context() as patch:

        def without_descriptor(_pid):
            raise OSError(errno.EMFILE, "no descriptor is left")

        patch.setattr(os, "pidfd_open", without_descriptor)
        with pytest.raises(ShareError, match="refuses: the broker has no file descriptor left"):
            shake_hands(address, HELLO)
    assert members(address) == []
    met, _, _ = connected(address)
    met.close()
