"""The broker on its socket: who may connect, what it answers, and what becomes of who goes."""

import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time

import pytest

from pgmo.errors import ShareError
from pgmo.share.address import default_address, prepare_folder
from pgmo.share.broker import Broker
from pgmo.share.client import Answer, Card, Client, Sizes
from pgmo.share.meeting import connect, meet, status
from pgmo.share.oracle import check
from pgmo.share.protocol import LIMIT, Lines, encode
from pgmo.share.schedule import Rules
from pgmo.share.starting import ensure_broker, listens

TOTAL = 1000


class Memory:
    """A card's memory that is only numbers."""

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


def client(address, memory=None, **fields):
    told = []
    made = Client(address, Card("GPU-1", TOTAL, "test", **fields), memory or Memory(), told.append)
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


def test_turns_go_round(serve, address):
    serve()
    one, other = client(address), client(address)
    assert one.take() is Answer.TURN
    assert one.take() is Answer.TURN  # it has it
    taken = threading.Event()
    thread = threading.Thread(target=lambda: (other.take(), taken.set()))
    thread.start()
    wait_for(lambda: "waits" in [m["state"] for m in status(address)["cards"][0]["members"]])
    assert not taken.is_set()
    one.give()
    thread.join()
    assert other.held
    assert not one.held
    other.give()
    other.give()  # it has none
    one.close()
    other.close()


def test_who_was_alone_gives_back_what_idles_when_another_comes(serve, address):
    serve()
    memory = Memory()
    one, other = client(address, memory), client(address)
    one.take()
    one.give()
    assert memory.idle == 700
    assert other.take() is Answer.TURN
    assert memory.given.wait(30)
    assert memory.idle == 0
    other.close()
    one.close()


def test_what_idles_with_who_comes_late_goes_back_as_well(serve, address):
    memory = Memory()
    one, other = client(address, memory), client(address)
    one._clock = lambda: 0.0
    assert one.take() is Answer.ALONE
    memory.begin()
    one.give()
    serve()
    assert other.take() is Answer.TURN
    one._clock = lambda: 100.0
    thread = threading.Thread(target=one.take)
    thread.start()
    assert memory.given.wait(30)
    other.close()
    thread.join()
    one.close()


def test_who_is_told_with_the_welcome_that_the_card_is_crowded_heeds_it(address):
    prepare_folder(address)
    heard = []

    def serve_one(listener):
        met, _ = listener.accept()
        lines = Lines()
        while not lines.feed(met.recv(LIMIT)):
            pass
        promised = {"deadline": 1.0, "patience": 60.0}
        met.sendall(encode("welcome", promised) + encode("crowded", {"crowded": True}))
        while "ask" not in [one["kind"] for one in heard]:
            heard.extend(lines.feed(met.recv(LIMIT)))
        met.sendall(encode("pass", {}))
        while met.recv(LIMIT):
            pass

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(address))
        listener.listen()
        thread = threading.Thread(target=serve_one, args=(listener,))
        thread.start()
        memory = Memory()
        memory.begin()
        one = client(address, memory)
        assert one.take() is Answer.PASS
        one.close()
        thread.join()
    assert [one["kind"] for one in heard] == ["released", "ask"]
    assert heard[0]["idle"] == 0


def test_without_a_broker_everybody_goes_on(address):
    alone = client(address)
    assert alone.take() is Answer.ALONE
    alone.give()
    alone.close()
    assert alone.told == []


def test_a_broker_that_ends_is_noticed_and_its_successor_found(serve, address):
    serve()
    one, other = client(address), client(address)
    one._clock = lambda: 0.0
    one.take()
    waiting = []
    thread = threading.Thread(target=lambda: waiting.append(other.take()))
    thread.start()
    wait_for(lambda: "waits" in [m["state"] for m in status(address)["cards"][0]["members"]])
    serve.end()
    thread.join()
    assert waiting == [Answer.ALONE]
    wait_for(lambda: not one.connected)
    one.give()
    assert one.take() is Answer.ALONE
    assert "goes on alone" in one.told[0]
    serve()
    one._clock = lambda: 100.0
    assert one.take() is Answer.TURN
    one.close()
    other.close()


def test_who_leaves_keeps_nothing_that_idles(serve, address):
    serve()
    memory = Memory()
    one = client(address, memory)
    one.take()
    one.give()
    assert memory.idle == 700  # it is alone
    one.close()
    assert memory.idle == 0


def test_who_waits_too_long_goes_on_without(serve, address):
    serve(Rules(total=TOTAL, deadline=60.0, patience=0.1))
    one, other = client(address), client(address)
    assert one.take() is Answer.TURN
    assert other.take() is Answer.PASS
    other.give()
    one.close()
    assert other.take() is Answer.TURN
    other.close()


HOLD = """
import os, sys, time
from pathlib import Path
from pgmo.share.client import Card, Client
from tests.unit.share.test_broker import Memory
client = Client(Path(sys.argv[1]), Card("GPU-1", 1000, "holder"), Memory())
client.take()
if "fork" in sys.argv and os.fork() == 0:
    time.sleep(60)
print("has it", flush=True)
time.sleep(60)
"""


def holder(address, *words):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(address), *words],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout.readline() == "has it\n"
    return process


@pytest.mark.parametrize("words", [(), ("fork",)])
def test_who_is_killed_gives_its_turn_back(serve, address, words):
    serve()
    process = holder(address, *words)
    other = client(address)
    process.kill()
    process.wait()
    assert other.take() is Answer.TURN
    other.close()
    os.killpg(process.pid, signal.SIGKILL) if words else None  # its child has the socket, too
    process.stdout.close()


def test_who_is_stopped_is_passed_over_after_the_deadline(serve, address):
    serve(Rules(total=TOTAL, deadline=0.2, patience=60.0))
    process = holder(address)
    os.kill(process.pid, signal.SIGSTOP)
    other = client(address)
    assert other.take() is Answer.TURN
    assert shown(address)[process.pid] == "overdue"
    process.kill()
    process.wait()
    process.stdout.close()
    other.close()


# --- who may ------------------------------------------------------------------------------------


def test_folder_and_socket_are_the_users_alone(serve, address):
    serve()
    assert stat.S_IMODE(address.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(address.stat().st_mode) == 0o600


def test_a_folder_that_is_open_to_others_is_refused(serve, address):
    address.parent.mkdir(mode=0o755)
    address.parent.chmod(0o755)
    with pytest.raises(ShareError, match="open to others: chmod 700"):
        prepare_folder(address)
    with pytest.raises(ShareError, match="too long for a socket"):
        prepare_folder(address.with_name("a" * 200))


def test_a_link_is_no_folder(tmp_path):
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(ShareError, match="not a folder of yours"):
        prepare_folder(tmp_path / "link" / "share")


AS_NOBODY = """
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
met = socket.socket(socket.AF_UNIX)
try:
    met.connect(sys.argv[1])
    print(met.recv(1000).decode())
except OSError as error:
    print(type(error).__name__)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="takes two users")
def test_another_user_is_refused(serve, address):
    serve()

    def asked():
        return subprocess.run(
            [sys.executable, "-c", AS_NOBODY, str(address)], capture_output=True, text=True
        ).stdout

    assert asked() == "PermissionError\n"
    for folder in (*address.parents,):  # somebody has opened everything
        if str(folder).startswith(("/tmp/", "/var/")):
            folder.chmod(0o755)
    address.chmod(0o777)
    assert "another user's" in asked()
    address.parent.chmod(0o700)
    one = client(address)
    assert one.take() is Answer.TURN
    one.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="takes two users")
def test_another_users_broker_is_none(address):
    address.parent.mkdir(mode=0o700)
    os.chown(address.parent, 65534, 65534)
    address.touch()
    alone = client(address)
    assert alone.take() is Answer.ALONE
    assert "is not a folder of yours" in alone.told[0]
    with pytest.raises(ShareError, match="not a folder of yours"):
        listens(address)


def test_there_is_one_broker_at_an_address(serve, address):
    serve()
    with pytest.raises(ShareError, match="another broker"):
        Broker(address, Rules())
    assert listens(address)


def test_the_socket_of_a_killed_broker_is_in_nobodys_way(serve, address):
    prepare_folder(address)
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(address))
    left.close()
    assert not listens(address)
    serve()
    assert listens(address)


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\xff\n",
        b"[]\n",
        b"{}\n",
        b'{"kind":"ask"}\n',
        b'{"kind":"hello","version":2}\n',
        b'{"kind":"hello","version":1,"card":"","name":"x","held":0,"idle":0,"total":1,"free":1}\n',
        b'{"kind":"hello","version":1,"card":"c","name":"x","held":-1,"idle":0,"total":1,"free":1}\n',
        b'{"kind":"hello","version":1,"card":"c","name":"x","held":true,"idle":0,"total":1,"free":1}\n',
        b"[" * 60000 + b"\n",
        b"x" * (LIMIT + 2),
    ],
)
def test_what_is_no_message_ends_that_connection_alone(serve, address, data):
    serve()
    one = client(address)
    assert one.take() is Answer.TURN
    with connect(address) as met:
        met.sendall(data)
        while met.recv(1 << 16):
            pass
    one.give()
    assert one.take() is Answer.TURN
    one.close()


def test_what_makes_no_sense_of_a_known_client_ends_its_connection(serve, address):
    serve()
    hello = {
        "version": 1,
        "card": "GPU-1",
        "name": "x",
        "held": 0,
        "idle": 0,
        "total": 1,
        "free": 1,
    }
    for line in (b'{"kind":"give"}\n', b'{"kind":"turn"}\n'):
        met, _, _, _ = meet(address, hello)
        met.sendall(line)
        while met.recv(1 << 16):
            pass
        met.close()
    met, _, _, _ = meet(address, hello)
    for kind in ("withdraw", "ask", "ask", "withdraw"):
        met.sendall(encode(kind, {}))
    met.sendall(encode("released", {"held": 0, "idle": 0, "free": 1}))
    met.sendall(encode("bye", {}))
    while met.recv(1 << 16):
        pass
    met.close()


def test_the_default_address_is_the_users_own(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert default_address() == tmp_path / "pgmo" / "share"
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "none"))
    assert default_address().parent.name == f"pgmo-{os.geteuid()}"


def test_a_broker_that_is_started_for_others_ends_when_nobody_uses_it(address, monkeypatch):
    monkeypatch.setattr("pgmo.share.starting.LINGER", 0.2)
    ensure_broker(address)
    pid = status(address)["pid"]
    ensure_broker(address)
    assert status(address)["pid"] == pid
    wait_for(lambda: not listens(address))
