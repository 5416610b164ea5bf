"""A broker in a thread."""

import threading

import pytest

from pgmo.share.broker import Broker
from pgmo.share.oracle import check
from pgmo.share.schedule import Rules
from tests.unit.share.ground import TOTAL


@pytest.fixture
def address(tmp_path):
    return tmp_path / "folder" / "share"


@pytest.fixture
def serve(address, tmp_path):
    """Serves in a thread until the test ends."""
    served = []

    def begin(rules=None, **options):
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
