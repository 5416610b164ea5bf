"""Tests of a broker that accepts no connections: no descriptor is left, or its backlog is full."""

import errno
import socket
from itertools import count

import pytest

from pgmo.share.address import prepare_folder
from pgmo.share.broker import Broker
from pgmo.share.handshake import status
from pgmo.share.schedule import Rules
from pgmo.share.starting import listens
from tests.unit.share.ground import client


class Exhausted:
    """A listening socket whose first call of accept finds no descriptor."""

    def __init__(self, real):
        self.real, self.failed = real, False

    def accept(self):
        if not self.failed:
            self.failed = True
            raise OSError(errno.EMFILE, "Too many open files")
        return self.real.accept()

    def __getattr__(self, name):
        return getattr(self.real, name)


def test_a_broker_that_cannot_accept_waits_and_tries_again(address):
    now, calls = 0.0, count()

    def clock():
        assert next(calls) < 1000, "the broker spins"
        return now

    with Broker(address, Rules(), clock=clock) as broker:
        real = broker._listener
        broker._listener = Exhausted(real)
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
        broker._listener = real


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
