"""Tests of a broker at its limit of descriptors, which refuses, answers and does not spin."""

import errno
import resource
import socket
import subprocess
import sys
from itertools import count

import pytest

from pgmo.errors import ShareError
from pgmo.share.address import prepare_folder
from pgmo.share.broker import Broker
from pgmo.share.descriptors import GUESTS, MOST_MEMBERS, member_capacity
from pgmo.share.handshake import connect, shake_hands, status
from pgmo.share.schedule import Rules
from pgmo.share.starting import listens
from tests.unit.share.ground import HELLO, client, wait_for


@pytest.fixture
def narrow(address):
    """Start a broker in a process that may have 80 descriptors."""
    command = [sys.executable, "-m", "pgmo", "share", "--socket", str(address), "--quiet"]
    process = subprocess.Popen(["sh", "-c", 'ulimit -n 80; exec "$@"', "sh", *command])
    wait_for(address.exists)
    wait_for(lambda: listens(address))
    yield process
    process.terminate()
    process.wait()


def test_beyond_its_descriptors_a_broker_refuses_and_answers(narrow, address):
    held = []
    with pytest.raises(ShareError, match=r"refuses: the broker serves \d+ processes, and its"):
        for number in range(80):
            held.append(shake_hands(address, HELLO | {"card": f"GPU-{number}"})[0])
    assert held
    silent = [connect(address) for _ in range(3 * GUESTS)]
    assert len(status(address)["cards"]) == len(held)
    for one in [*held, *silent]:
        one.close()


def test_the_soft_limit_is_raised_as_far_as_needed(monkeypatch):
    limits, raised = (256, 1 << 20), []
    monkeypatch.setattr(resource, "getrlimit", lambda _what: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _what, both: raised.append(both))
    assert member_capacity() == MOST_MEMBERS
    ((soft, hard),) = raised
    assert 2 * MOST_MEMBERS < soft < 4 * MOST_MEMBERS
    assert hard == limits[1]
    limits = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    assert member_capacity() == MOST_MEMBERS
    assert len(raised) == 1


class Exhausted:
    """A listening socket whose first `failures` calls of accept find no descriptor."""

    def __init__(self, real, failures):
        self.real, self.failures = real, failures

    def accept(self):
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return self.real.accept()

    def __getattr__(self, name):
        return getattr(self.real, name)


def test_the_reserve_refuses_who_cannot_be_accepted(address):
    with Broker(address, Rules()) as broker, socket.socket(socket.AF_UNIX) as met:
        broker._listener.socket = Exhausted(broker._listener.socket, failures=1)
        met.connect(str(address))
        broker._accept(None)
        assert b"no file descriptor left" in met.recv(1 << 16)
        broker._listener.socket = broker._listener.socket.real


def test_a_broker_that_cannot_accept_waits_and_tries_again(address):
    now, calls = 0.0, count()

    def clock():
        assert next(calls) < 1000, "the broker spins"
        return now

    with Broker(address, Rules(), clock=clock) as broker:
        real = broker._listener.socket
        broker._listener.socket = Exhausted(real, failures=2)
        with socket.socket(socket.AF_UNIX) as met:
            met.connect(str(address))
            broker._accept(None)
            assert broker._selector.select(0) == []  # connections do not wake the broker
            assert broker._timeout() == pytest.approx(1.0)
            now = 1.5
            met.sendall(b'{"kind":"status"}\n')
            broker.watch(met.fileno(), broker.stop)  # the answer
            broker.run()
            assert b'"status"' in met.recv(1 << 16)
        broker._listener.socket = real


def test_a_full_backlog_is_no_missing_broker(address, monkeypatch):
    monkeypatch.setattr("pgmo.share.handshake.GREETING", 1)
    prepare_folder(address)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(address))
        listener.listen(0)
        waiting = []
        while True:
            one = socket.socket(socket.AF_UNIX)
            one.setblocking(False)
            waiting.append(one)
            try:
                one.connect(str(address))
            except BlockingIOError:
                break
        assert listens(address)
        with pytest.raises(TimeoutError, match="it exists, but has accepted no connection"):
            status(address)
        alone = client(address)
        assert alone.take().value == "alone"
        assert "no connection for 1 s; the program continues without turns" in alone.messages[0]
        for one in waiting:
            one.close()
