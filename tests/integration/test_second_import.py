"""Tests of programs that remove pgmo from `sys.modules`, such as module reloaders."""

import pytest

pytest.importorskip("torch")

from tests.forked import run

PROGRAM = """
import sys
import torch
import pgmo as first

def train(pgmo):
    with pgmo.optimize(device="cpu") as session:
        for _ in range(6):
            with session.iteration():
                torch.ones(300_000).add(1)

train(first)
kept = torch.ones(300_000)
for name in [one for one in sys.modules if one.split(".")[0] == "pgmo"]:
    del sys.modules[name]
import pgmo as second
assert second is not first
try:
    train(second)
except second.PgmoError as error:
    print(error)
assert float(kept.sum()) == 300_000
"""


def test_a_second_import_says_to_restart_and_tensors_stay_valid():
    ended = run(PROGRAM)
    assert ended.output == (
        "pgmo was imported a second time after its modules were removed from sys.modules: restart "
        "the program to use pgmo again\n"
    )
    assert (ended.errors, ended.exit_code) == ("", 0)
