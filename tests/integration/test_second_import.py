"""Programs from which pgmo's modules vanish: module reloaders, tests that clear `sys.modules`."""

import pytest

pytest.importorskip("torch")

from tests.forked import run

FORGET = """
import sys
import torch

def forget():
    for name in [one for one in sys.modules if one.split(".")[0] == "pgmo"]:
        del sys.modules[name]

def train(pgmo, **options):
    values = []
    with pgmo.optimize(device="cpu", **options) as session:
        for _ in range(6):
            with session.iteration():
                values.append(float(torch.ones(300_000).add(1).sum()))
    return values, session.statistics["hits"]
"""

SERVED_AGAIN = """
import pgmo as first
kept, hits = train(first)
forget()
import pgmo as second
assert second is not first
assert train(second) == (kept, hits)
assert hits
forget()
import pgmo as third
assert train(third) == (kept, hits)
print("served")
"""

STILL_OPEN = """
import pgmo as first
session = first.optimize(device="cpu")
session.__enter__()
with session.iteration():
    torch.ones(300_000)
forget()
import pgmo as second
try:
    train(second)
except second.PgmoError as error:
    print(error)
session.__exit__(None, None, None)
assert train(second)[1]
"""

IN_A_CHILD = """
import os
import pgmo as first
with first.optimize(device="cpu") as session:
    with session.iteration():
        torch.ones(300_000)
    if os.fork() == 0:
        forget()
        import pgmo as second
        assert train(second)[1]
        print("served", flush=True)
        os._exit(0)
    os.wait()
"""

AFTER_A_FAILED_INSTALLATION = """
import pgmo as first
from pgmo.allocator.build.library import AdapterLibrary
call = AdapterLibrary.call
def refuse(self, name, *arguments):
    if name == "pgmo_install":
        raise first.AdapterError("refused")
    return call(self, name, *arguments)
AdapterLibrary.call = refuse
try:
    train(first)
except first.PgmoError as error:
    print(error)
forget()
import pgmo as second
assert train(second)[1]
print("served")
"""


def test_a_second_import_serves():
    ended = run(FORGET + SERVED_AGAIN)
    assert (ended.output, ended.errors, ended.exit_code) == ("served\n", "", 0)


def test_a_second_import_says_what_to_do_while_a_session_of_the_first_is_open():
    ended = run(FORGET + STILL_OPEN)
    assert ended.output == (
        "pgmo was imported a second time while a session of the first import is open on cpu: "
        "close that session first, or do not remove pgmo from sys.modules\n"
    )
    assert (ended.errors, ended.exit_code) == ("", 0)


def test_a_second_import_serves_in_a_child_of_an_open_session():
    ended = run(FORGET + IN_A_CHILD)
    assert (ended.output, ended.errors, ended.exit_code) == ("served\n", "", 0)


def test_a_second_import_serves_after_the_first_could_not_be_installed():
    ended = run(FORGET + AFTER_A_FAILED_INSTALLATION)
    assert (ended.output, ended.errors, ended.exit_code) == ("refused\nserved\n", "", 0)
