"""Clients of a broker, with a card whose memory is only counted."""

import threading
import time

from pgmo.share.client import Client, Registration, Sizes
from pgmo.share.handshake import status

TOTAL = 1000


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
    told = []
    made = Client(
        address, Registration("GPU-1", TOTAL, "test", **fields), memory or Memory(), told.append
    )
    made.told = told
    return made


def shown(address):
    (card,) = status(address)["cards"]
    return {one["pid"]: one["state"] for one in card["members"]}


def wait_for(condition):
    until = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.005)
