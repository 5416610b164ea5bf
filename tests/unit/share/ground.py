"""Clients of a broker, with a card whose memory is only counted."""

import threading
import time

from pgmo.share.client import Client, Sizes
from pgmo.share.handshake import status
from pgmo.share.protocol import VERSION
from tests.unit.share.oracle import Oracle

TOTAL = 1000
HELLO = {"version": VERSION, "card": "GPU-1", "name": "test", "held": 600, "idle": 0}
HELLO |= {"total": TOTAL, "free": 400}


class Memory:
    """A client's memory of `TOTAL` bytes of a card, which is only counted."""

    def __init__(self, lasting=100, need=700):
        self.lasting, self.need = lasting, need
        self.idle = 0
        self.given = threading.Event()

    def begin(self):
        self.idle = self.need

    def sizes(self):
        return Sizes(self.lasting + self.idle, self.idle, TOTAL)

    def give_back(self, *, between_turns):
        self.idle = 0
        self.given.set()


def client(address, memory=None, **fields):
    messages = []
    program = {"card": "GPU-1", "total": TOTAL, "name": "test", **fields}
    made = Client(address, memory or Memory(), notify=messages.append, **program)
    made.messages = messages
    return made


def members(address):
    return [one for card in status(address)["cards"] for one in card["members"]]


def states(address):
    return [one["state"] for one in members(address)]


def drain(connection):
    """Read until the broker closes the connection."""
    while connection.recv(1 << 16):
        pass


def wrong(records):
    """Return a sentence for each rule that records of a schedule break."""
    begin = {"event": "begin", "pid": 1, "patience": 60.0}
    log = [{"n": n, "t": 0.0, **one} for n, one in enumerate([begin, *records], 1)]
    return Oracle().read(log).wrong


def wait_for(condition):
    until = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.005)
