"""Kill clients and brokers at random, and check that no page is lost or held by two clients.

    python -m tests.unit.share.kills --kills 1000

The card is a file, and a page of the card is a byte of the file, which a process locks. The kernel
releases a lock if its process is killed, as the driver releases pages, and never gives a lock to
two processes. The card has the pages that all clients keep, and those of one arena. A client that
has a turn but gets too few pages is an error. There are two excuses: another client goes on without
a turn, as clients do without a broker, or was stopped for longer than the deadline. The log of the
broker is checked by `oracle`.
"""

import argparse
import fcntl
import os
import random
import signal
import struct
import sys
import tempfile
import time
import traceback
from collections import Counter
from mmap import mmap
from pathlib import Path

from pgmo.share import client as clients
from pgmo.share.broker import Broker
from pgmo.share.client import Client, Sizes, TurnAnswer
from pgmo.share.handshake import status
from pgmo.share.schedule import Rules
from tests.unit.share.oracle import check

CLIENTS, LASTING, NEED = 4, 3, 12
PAGES = CLIENTS * LASTING + NEED
RULES = Rules(deadline=0.5, patience=20.0, total=PAGES)
WITHIN = 60.0
"""Seconds in which a live client must make three iterations."""

EMPTY, IN_TURN, WITHOUT = range(3)


class Seats:
    """A state, an excuse and a count of iterations for each client, in shared memory."""

    def __init__(self):
        self._shared = mmap(-1, 4096)

    def state(self, seat, value=None):
        return self._byte(seat * 16, value)

    def excused(self, seat, value=None):
        return self._byte(seat * 16 + 1, value)

    def iterations(self, seat):
        return int.from_bytes(self._shared[seat * 16 + 8 : seat * 16 + 16], "little")

    def count(self, seat):
        value = self.iterations(seat) + 1
        self._shared[seat * 16 + 8 : seat * 16 + 16] = value.to_bytes(8, "little")

    def _byte(self, at, value):
        if value is not None:
            self._shared[at] = value
        return self._shared[at]

    @property
    def excuse(self):
        """Return whether a client may hold pages without a turn."""
        return any(self.state(seat) == WITHOUT or self.excused(seat) for seat in range(CLIENTS))


class Pages:
    """The pages of the card that a process holds."""

    def __init__(self, card):
        self._file = os.open(card, os.O_RDWR)
        self._have = []
        self._lasting = 0

    def take(self, count):
        """Take up to `count` free pages, and return whether there were as many."""
        for page in random.sample(range(PAGES), PAGES):
            if count == 0:
                break
            if page not in self._have and self._lock(page):
                self._have.append(page)
                count -= 1
        return count == 0

    def stay(self):
        """Keep the pages that the process holds now until it ends."""
        self._lasting = len(self._have)

    def begin(self):
        pass

    def sizes(self):
        return Sizes(len(self._have), len(self._have) - self._lasting, PAGES)

    def give_back(self, *, between_turns):
        while len(self._have) > self._lasting:
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, self._have.pop())

    def others(self):
        """Return the number of pages of each other process, by its process id."""
        owners = Counter()
        for page in range(PAGES):
            asked = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, page, 1, 0)
            kind, _, _, _, pid = struct.unpack(
                "hhqqi4x", fcntl.fcntl(self._file, fcntl.F_GETLK, asked)
            )
            if kind != fcntl.F_UNLCK:
                owners[pid] += 1
        return dict(owners)

    def _lock(self, page):
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, page)
        except OSError:
            return False
        return True


def be_client(folder, seats, seat):
    """Take turns until the process is killed."""
    clients.RETRY = clients.LONGEST_RETRY = 0.02
    pages = Pages(folder / "card")
    while not pages.take(LASTING - pages.sizes().held):
        time.sleep(0.001)  # waits for pages of the killed predecessor
    pages.stay()
    address = folder / "socket" / "share"
    client = Client(address, pages, card="card", total=PAGES, name=f"client {seat}")
    while True:
        answer = client.take()
        seats.state(seat, IN_TURN if answer is TurnAnswer.TURN else WITHOUT)
        excuse = seats.excuse  # read first, as it may end while pages are taken
        whole = pages.take(NEED - (pages.sizes().held - LASTING))
        if not whole and answer is TurnAnswer.TURN and not (excuse or seats.excuse):
            text = f"{os.getpid()} has {pages.sizes()} in a turn, beside {pages.others()}\n"
            (folder / "wrong").open("a").write(text)
        time.sleep(random.uniform(0, 0.004))
        if answer is not TurnAnswer.TURN:
            pages.give_back(between_turns=False)
        client.give(whole=whole)
        # Without a broker, a client keeps idle pages, of which the next broker learns later.
        keeps = pages.sizes().idle > 0 and not client.connected
        seats.state(seat, WITHOUT if keeps else EMPTY)
        seats.excused(seat, 0)
        seats.count(seat)
        time.sleep(random.uniform(0, 0.002))


def be_broker(folder):
    """Serve until the process is killed."""
    while True:
        try:
            broker = Broker(folder / "socket" / "share", RULES, folder / "log")
        except Exception:
            time.sleep(0.001)  # the predecessor has not ended yet
        else:
            broker.run()


class Killer:
    """A broker and clients in processes, which are killed at random.

    Args:
        folder: folder of the card, the socket and the log.
        seed: seed of the choice of processes and times.
    """

    def __init__(self, folder, seed):
        self.folder, self.random = folder, random.Random(seed)
        self.seats = Seats()
        (folder / "card").write_bytes(bytes(PAGES))
        self.broker = self.fork(be_broker, folder)
        self.clients = [self.fork(be_client, folder, self.seats, at) for at in range(CLIENTS)]
        self.counted = dict.fromkeys(("client", "broker", "stopped"), 0)

    def fork(self, work, *arguments):
        child = os.fork()
        if child:
            return child
        try:
            random.seed()
            work(*arguments)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)

    def kill(self):
        """Kill or stop a random process at a random time, and start its successor."""
        time.sleep(self.random.uniform(0, 0.03))
        seat = self.random.randrange(CLIENTS)
        what = self.random.random()
        if what < 0.05:
            self.counted["broker"] += 1
            self._mark_all()  # the next broker does not know who has a turn
            self._end(self.broker)
            self._mark_all()
            self.broker = self.fork(be_broker, self.folder)
        elif what < 0.1:
            self.counted["stopped"] += 1
            os.kill(self.clients[seat], signal.SIGSTOP)
            os.waitpid(self.clients[seat], os.WUNTRACED)
            self.seats.excused(seat, 1)
            time.sleep(self.random.uniform(0, 1.0))
            os.kill(self.clients[seat], signal.SIGCONT)
        else:
            self.counted["client"] += 1
            self._end(self.clients[seat])
            self.seats.state(seat, EMPTY)
            self.seats.excused(seat, 0)
            self.clients[seat] = self.fork(be_client, self.folder, self.seats, seat)

    def _mark_all(self):
        for seat in range(CLIENTS):
            self.seats.excused(seat, 1)

    def settle(self):
        """Wait until all clients go on, and return a sentence for each client that does not."""
        before = [self.seats.iterations(seat) for seat in range(CLIENTS)]
        until = time.monotonic() + WITHIN
        waiting = set(range(CLIENTS))
        while waiting and time.monotonic() < until:
            waiting = {at for at in waiting if self.seats.iterations(at) < before[at] + 3}
            time.sleep(0.01)
        return [f"client {at} does not go on" for at in waiting]

    def lost_pages(self):
        """Kill all processes, and return a sentence if pages or members remain."""
        for one in self.clients:
            self._end(one)
        until = time.monotonic() + WITHIN
        while members := [m for c in status(self.address)["cards"] for m in c["members"]]:
            if time.monotonic() > until:
                return [f"the broker still knows {members}"]
            time.sleep(0.01)
        self._end(self.broker)
        mine = Pages(self.folder / "card")
        return [] if mine.take(PAGES) else [f"{PAGES - mine.sizes().held} pages are lost"]

    @property
    def address(self):
        return self.folder / "socket" / "share"

    def _end(self, process):
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


def run(folder, kills, seed):
    """Kill processes `kills` times, and return the counts and a sentence for each error."""
    killer = Killer(folder, seed)
    wrong = killer.settle()
    for _ in range(kills):
        killer.kill()
    wrong += killer.settle()
    wrong += killer.lost_pages()
    if (folder / "wrong").exists():
        wrong += (folder / "wrong").read_text().splitlines()
    summary = check(folder / "log", slack=10.0)
    return {**killer.counted, "turns": summary.turns, "passed": summary.passed}, [
        *wrong,
        *summary.wrong,
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        counted, wrong = run(Path(folder), arguments.kills, arguments.seed)
    print(", ".join(f"{name} {count}" for name, count in counted.items()))
    print("\n".join(wrong) or "nothing was wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
