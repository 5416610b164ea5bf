"""Tests of the broker's socket: its users, its path and invalid messages."""

import os
import socket
import stat
import subprocess
import sys

import pytest

from pgmo.errors import ShareError
from pgmo.share.address import default_address, prepare_folder
from pgmo.share.broker import Broker
from pgmo.share.client import TurnAnswer
from pgmo.share.handshake import connect, shake_hands, status
from pgmo.share.protocol import LIMIT, encode
from pgmo.share.schedule import Rules
from pgmo.share.starting import ensure_broker, listens
from tests.unit.share.ground import HELLO, client, drain, wait_for


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


AS_ANOTHER_USER = """
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
            [sys.executable, "-c", AS_ANOTHER_USER, str(address)], capture_output=True, text=True
        ).stdout

    assert asked() == "PermissionError\n"
    for folder in (*address.parents,):  # as if a user had opened all folders
        if str(folder).startswith(("/tmp/", "/var/")):
            folder.chmod(0o755)
    address.chmod(0o777)
    assert "another user" in asked()
    address.parent.chmod(0o700)
    one = client(address)
    assert one.take() is TurnAnswer.TURN
    one.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="takes two users")
def test_another_users_broker_is_none(address):
    address.parent.mkdir(mode=0o700)
    os.chown(address.parent, 65534, 65534)
    address.touch()
    alone = client(address)
    assert alone.take() is TurnAnswer.ALONE
    assert "is not a folder of yours" in alone.messages[0]
    with pytest.raises(ShareError, match="not a folder of yours"):
        listens(address)


def test_there_is_one_broker_at_an_address(serve, address):
    serve()
    with pytest.raises(ShareError, match="another broker"):
        Broker(address, Rules())
    assert listens(address)


def test_the_socket_of_a_killed_broker_stops_no_other_broker(serve, address):
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
def test_an_invalid_message_ends_its_connection_alone(serve, address, data):
    serve()
    one = client(address)
    assert one.take() is TurnAnswer.TURN
    with connect(address) as met:
        met.sendall(data)
        drain(met)
    one.give()
    assert one.take() is TurnAnswer.TURN
    one.close()


def test_an_unexpected_message_of_a_client_ends_its_connection(serve, address):
    serve()
    for line in (b'{"kind":"give"}\n', b'{"kind":"turn"}\n'):
        met, _, _, _ = shake_hands(address, HELLO)
        met.sendall(line)
        drain(met)
        met.close()
    met, _, _, _ = shake_hands(address, HELLO)
    for kind in ("withdraw", "ask", "ask", "withdraw"):
        met.sendall(encode(kind, {}))
    met.sendall(encode("released", {"held": 0, "idle": 0, "free": 1}))
    met.sendall(encode("bye", {}))
    drain(met)
    met.close()


def test_the_default_address_is_the_users_own(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert default_address() == tmp_path / "pgmo" / "share"
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "none"))
    assert default_address().parent.name == f"pgmo-{os.geteuid()}"


def test_a_broker_that_is_started_for_others_ends_when_it_is_unused(address, monkeypatch):
    monkeypatch.setattr("pgmo.share.starting.LINGER", 0.2)
    ensure_broker(address)
    pid = status(address)["pid"]
    ensure_broker(address)
    assert status(address)["pid"] == pid
    wait_for(lambda: not listens(address))
