"""Tests of turns over the socket, and of clients that end."""

import os
import signal
import socket
import subprocess
import sys
import threading

import pytest

from pgmo.share.address import prepare_folder
from pgmo.share.broker import Broker
from pgmo.share.client import TurnAnswer
from pgmo.share.protocol import LIMIT, Lines, encode
from pgmo.share.schedule import Rules
from tests.unit.share.ground import (
    HELLO,
    TOTAL,
    Memory,
    client,
    members,
    states,
    wait_for,
)


def test_turns_go_round(serve, address):
    serve()
    one, other = client(address), client(address)
    assert one.take() is TurnAnswer.TURN
    assert one.take() is TurnAnswer.TURN  # it has the turn already
    taken = threading.Event()
    thread = threading.Thread(target=lambda: (other.take(), taken.set()))
    thread.start()
    wait_for(lambda: "waits" in states(address))
    assert not taken.is_set()
    one.give()
    thread.join()
    assert other.held
    assert not one.held
    other.give()
    other.give()  # it has no turn
    one.close()
    other.close()


def test_a_lone_client_releases_idle_memory_when_another_joins(serve, address):
    serve()
    memory = Memory()
    one, other = client(address, memory), client(address)
    one.take()
    one.give()
    assert memory.idle == 700
    assert other.take() is TurnAnswer.TURN
    assert memory.given.wait(30)
    assert memory.idle == 0
    other.close()
    one.close()


def test_a_client_that_joins_late_releases_its_idle_memory(serve, address):
    memory = Memory()
    one, other = client(address, memory), client(address)
    one._clock = lambda: 0.0
    assert one.take() is TurnAnswer.ALONE
    memory.begin()
    one.give()
    serve()
    assert other.take() is TurnAnswer.TURN
    one._clock = lambda: 100.0
    thread = threading.Thread(target=one.take)
    thread.start()
    assert memory.given.wait(30)
    other.close()
    thread.join()
    one.close()


def test_a_client_releases_if_the_welcome_says_that_the_card_is_crowded(address):
    prepare_folder(address)
    received = []

    def serve_one(listener):
        met, _ = listener.accept()
        lines = Lines()
        while not lines.feed(met.recv(LIMIT)):
            pass
        promised = {"deadline": 1.0, "patience": 60.0}
        met.sendall(encode("welcome", promised) + encode("crowded", {"crowded": True}))
        while "ask" not in [one["kind"] for one in received]:
            received.extend(lines.feed(met.recv(LIMIT)))
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
        assert one.take() is TurnAnswer.PASS
        one.close()
        thread.join()
    assert [one["kind"] for one in received] == ["released", "ask"]
    assert received[0]["idle"] == 0


def test_without_a_broker_everybody_goes_on(address):
    memory = Memory()
    alone = client(address, memory)
    assert alone.take() is TurnAnswer.ALONE
    assert memory.idle == memory.need
    alone.give()
    alone.close()
    assert alone.messages == []


def test_a_broker_that_ends_is_noticed_and_its_successor_found(serve, address):
    serve()
    one, other = client(address), client(address)
    one._clock = lambda: 0.0
    one.take()
    waiting = []
    thread = threading.Thread(target=lambda: waiting.append(other.take()))
    thread.start()
    wait_for(lambda: "waits" in states(address))
    serve.end()
    thread.join()
    assert waiting == [TurnAnswer.ALONE]
    wait_for(lambda: not one.connected)
    one.give()
    assert one.take() is TurnAnswer.ALONE
    assert "continues without turns" in one.messages[0]
    serve()
    one._clock = lambda: 100.0
    assert one.take() is TurnAnswer.TURN
    one.close()
    other.close()


def test_a_leaving_client_keeps_no_idle_memory(serve, address):
    serve()
    memory = Memory()
    one = client(address, memory)
    one.take()
    one.give()
    assert memory.idle == 700  # a client that is alone keeps idle memory
    one.close()
    assert memory.idle == 0


def test_a_client_that_waits_too_long_goes_on_without_a_turn(serve, address):
    serve(Rules(total=TOTAL, deadline=60.0, patience=0.1))
    one, other = client(address), client(address)
    assert one.take() is TurnAnswer.TURN
    assert other.take() is TurnAnswer.PASS
    other.give()
    one.close()
    assert other.take() is TurnAnswer.TURN
    other.close()


HOLD = """
import os, sys, time
from pathlib import Path
from pgmo.share.client import Client
from tests.unit.share.ground import Memory
client = Client(Path(sys.argv[1]), Memory(), card="GPU-1", total=1000, name="holder")
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
def test_a_killed_client_returns_its_turn(serve, address, words):
    serve()
    process = holder(address, *words)
    other = client(address)
    process.kill()
    process.wait()
    assert other.take() is TurnAnswer.TURN
    other.close()
    os.killpg(process.pid, signal.SIGKILL) if words else None  # the child has the socket, too
    process.stdout.close()


GOODBYE = """
import socket, sys
with socket.socket(socket.AF_UNIX) as broker:
    broker.connect(sys.argv[1])
    broker.sendall(sys.argv[2].encode())
    broker.recv(1 << 16)
    print("welcome", flush=True)
    sys.stdin.read()
    broker.sendall(b'{"kind":"bye"}\\n')
"""


def test_a_goodbye_and_the_end_may_arrive_at_once(address):
    command = [sys.executable, "-c", GOODBYE, address]
    with Broker(address, Rules(total=TOTAL)) as broker:
        child = subprocess.Popen(
            [*command, encode("hello", HELLO)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        ready, writes = os.pipe()

        def busy():
            child.communicate()  # the child says goodbye and ends
            os.write(writes, b"x")
            broker.watch(ready, broker.stop)

        broker.watch(child.stdout.fileno(), busy)
        broker.run()
        assert not broker._used
        os.close(ready)
        os.close(writes)


def test_a_stopped_client_is_passed_over_after_the_deadline(serve, address):
    serve(Rules(total=TOTAL, deadline=0.2, patience=60.0))
    process = holder(address)
    os.kill(process.pid, signal.SIGSTOP)
    other = client(address)
    assert other.take() is TurnAnswer.TURN
    assert {"pid": process.pid, "state": "overdue"}.items() <= members(address)[0].items()
    process.kill()
    process.wait()
    process.stdout.close()
    other.close()
