"""Virtual memory on cards that several processes share."""

import os
import subprocess
import sys

import pytest

from tests.fakecuda.driver import OUT_OF_MEMORY, PAGE
from tests.fakecuda.programs import ROOT

PROGRAM = """
import ctypes, json, os, sys
from tests.fakecuda import driver
stub = ctypes.CDLL(os.environ["PGMO_FAKECUDA"])
for name in ("fakecuda_used", "fakecuda_card_used", "fakecuda_card_peak"):
    getattr(stub, name).restype = ctypes.c_size_t
handles = []

def free():
    available, total = ctypes.c_size_t(), ctypes.c_size_t()
    stub.cudaMemGetInfo(ctypes.byref(available), ctypes.byref(total))
    return available.value

for line in sys.stdin:
    word, _, rest = line.strip().partition(" ")
    answer = None
    if word == "create":
        try:
            handles.append(driver.create(int(rest)))
        except driver.DriverError as error:
            answer = error.code
    elif word == "release":
        driver.release(handles.pop())
    elif word == "fork":
        answer = os.fork()
        if answer == 0:
            handles = [driver.create(int(rest))]
            os._exit(0)
        os.waitpid(answer, 0)
    if word != "report":
        print(json.dumps(answer), flush=True)
        continue
    sizes = stub.fakecuda_used(0), stub.fakecuda_card_used(0), stub.fakecuda_card_peak(0, 0)
    print(json.dumps([*sizes, free()]), flush=True)
"""


class Process:
    """Process on the card that executes commands."""

    def __init__(self, card, **environment):
        settings = {
            "FAKECUDA_SHARED": str(card),
            "FAKECUDA_BYTES": str(100 * PAGE),
            "FAKECUDA_DEVICES": "1",
        }
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            cwd=ROOT,
            env={**os.environ, **settings, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, line):
        import json

        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def pages(self):
        """Return pages of this process, pages of all, their peak, and free pages."""
        return [size // PAGE for size in self.ask("report")]

    def kill(self):
        self.process.kill()
        self.process.wait()


@pytest.fixture
def start(tmp_path):
    started = []

    def begin(**environment):
        started.append(Process(tmp_path / "card", **environment))
        return started[-1]

    yield begin
    for one in started:
        one.kill()
        one.process.stdin.close()
        one.process.stdout.close()


def test_the_card_is_what_all_of_them_have(start):
    one, other = start(), start()
    assert one.ask(f"create {60 * PAGE}") is None
    assert other.pages() == [0, 60, 60, 40]
    assert other.ask(f"create {50 * PAGE}") == OUT_OF_MEMORY
    assert other.ask(f"create {40 * PAGE}") is None
    assert one.pages() == [60, 100, 100, 0]
    one.ask("release")
    assert other.pages() == [40, 40, 100, 60]
    assert other.ask(f"create {60 * PAGE}") is None


def test_a_killed_process_frees_its_memory(start):
    one, other = start(), start()
    one.ask(f"create {60 * PAGE}")
    other.ask(f"create {10 * PAGE}")
    one.kill()
    assert other.pages() == [10, 10, 70, 90]
    third = start()
    assert third.ask(f"create {90 * PAGE}") is None
    assert other.pages() == [10, 100, 100, 0]


def test_a_forked_child_has_none_of_what_its_parent_has(start):
    one, other = start(), start()
    one.ask(f"create {30 * PAGE}")
    assert one.ask(f"fork {20 * PAGE}") > 0
    assert other.pages() == [0, 30, 50, 70]


def test_a_context_takes_of_the_card(start):
    one, other = (start(FAKECUDA_CONTEXT=str(5 * PAGE)) for _ in range(2))
    one.ask(f"create {PAGE}")
    assert other.pages()[3] == 100 - 6 - 5
