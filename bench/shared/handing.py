"""How an arena's pages may go from process to process, in calls of the driver, on the stub.

    release    unmap, release             ──the card──▶   create, map
    handles    unmap, release  ──descriptors, by messages──▶   import, map

Two processes have turns, one after the other; each maps as many pages as an arena has, one by one,
as slots find them missing, and grants access to all at once. The handles' descriptors would lie
with a broker in between.
"""

import array
import json
import os
import socket
import sys
from typing import Any

from tests.fakecuda import driver
from tests.fakecuda.driver import PAGE, POSIX_DESCRIPTOR

MOST = 253
"""Descriptors that one message may carry: `SCM_MAX_FD` of Linux."""

KINDS = ("create", "map", "unmap", "set_access", "reserve", "release", "export", "import")


def main() -> None:
    """Hands as many pages as the command line says; prints calls and messages of a late turn."""
    way, pages, turns = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    mine, others = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    child = os.fork()
    end = others if child == 0 else mine
    told = take_turns(way, pages, turns, end, begins=child != 0)
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    print(json.dumps(told))


def take_turns(
    way: str, pages: int, turns: int, end: socket.socket, *, begins: bool
) -> dict[str, Any]:
    """One of the two processes."""
    at = driver.reserve(pages * PAGE)
    kind = driver.properties(handle_types=POSIX_DESCRIPTOR)
    descriptors: list[int] = []
    told: dict[str, Any] = {}
    for turn in range(turns):
        if turn or not begins:
            descriptors = receive(end)
        calls(reset=True)
        if way == "handles" and descriptors:
            handles = [driver.import_from(one) for one in descriptors]
        else:
            handles = [driver.create(PAGE, kind) for _ in range(pages)]
            if way == "handles":
                descriptors = [driver.export(one) for one in handles]
        for number, handle in enumerate(handles):
            driver.call("cuMemMap", at + number * PAGE, PAGE, 0, handle, 0)
        driver.allow(at, pages * PAGE)
        for number, handle in enumerate(handles):
            driver.unmap(at + number * PAGE, PAGE)
            driver.release(handle)
        made = calls(reset=True)
        sent = send(end, descriptors if way == "handles" else [])
        told = {"calls": made, "messages": sent, "descriptors": len(descriptors)}
        for one in descriptors:
            os.close(one)
        descriptors = []
    return told


def calls(*, reset: bool) -> dict[str, int]:
    """Calls of the driver so far, by kind."""
    stub = driver._library()
    return {kind: stub.fakecuda_driver_calls(at, int(reset)) for at, kind in enumerate(KINDS)}


def send(end: socket.socket, descriptors: list[int]) -> int:
    """Hands the turn over, and descriptors with it; how many messages that took."""
    parts = [descriptors[at : at + MOST] for at in range(0, len(descriptors), MOST)] or [[]]
    for number, part in enumerate(parts):
        last = b"1" if number == len(parts) - 1 else b"0"
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", part))] if part else []
        end.sendmsg([last], rights)
    return len(parts)


def receive(end: socket.socket) -> list[int]:
    """Waits for the turn; the descriptors that have come with it."""
    found: list[int] = []
    while True:
        last, rights, _, _ = end.recvmsg(1, socket.CMSG_SPACE(MOST * 4))
        for _, _, data in rights:
            found += array.array("i", data).tolist()
        if last == b"1":
            return found


if __name__ == "__main__":
    main()
