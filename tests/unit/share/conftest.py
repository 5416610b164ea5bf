"""Fixtures: the address of a broker, and a broker in a thread."""

import os
import threading

import pytest

from pgmo.share import address as addresses
from pgmo.share.broker import Broker
from pgmo.share.schedule import Rules
from tests.unit.share.ground import TOTAL
from tests.unit.share.oracle import check


@pytest.fixture
def address(tmp_path):
    return tmp_path / "folder" / "share"


@pytest.fixture
def serve(address, tmp_path, monkeypatch):
    """Return a function that serves a broker in a thread until the test ends.

    Unless `one_process` is set, the broker takes each connection of the test's process for another
    process: it gets no process id, as for processes of other PID namespaces.
    """
    served = []

    def peer(connection):
        pid, user = addresses.peer(connection)
        return (0 if pid == os.getpid() else pid), user

    def begin(rules=None, *, one_process=False, **options):
        if not one_process:
            monkeypatch.setattr("pgmo.share.broker.peer", peer)
        rules = rules or Rules(total=TOTAL, deadline=30.0, patience=60.0)
        broker = Broker(address, rules, tmp_path / "log", **options)
        thread = threading.Thread(target=broker.run)
        thread.start()
        served.append((broker, thread))
        return broker

    def end():
        while served:
            broker, thread = served.pop()
            broker.stop()
            thread.join()
            broker.close()

    begin.end = end
    yield begin
    end()
    if (tmp_path / "log").exists():
        assert check(tmp_path / "log").wrong == []
