"""The predicted need with pgmo is what `pgmo run` takes of the card, to the byte."""

import os
from pathlib import Path

import pytest

import pgmo
from pgmo.cards import Card
from pgmo.rehearsal.environment import of_card
from tests import forked
from tests.fakecuda.fit.scripts import ATTENTION, BLOCKS, CONVOLUTIONS, card, write

_PRINT_PEAK = """
import atexit
from pgmo.rehearsal import control
atexit.register(lambda: print("peak", control.peak(0)))
"""


def peak_of_run(script: str, where: Card, *arguments: str) -> int:
    """Return the bytes that `pgmo run` takes of the card, as the stub runtime counts them."""
    path = Path(script)
    path.write_text(_PRINT_PEAK + path.read_text())
    command = ("-m", "pgmo", "run", script, *arguments)
    ended = forked.run_command(path.parent, *command, environment=os.environ | of_card(where, 1))
    assert ended.exit_code == 0, ended.errors
    return int(ended.output.rpartition("peak ")[2])


@pytest.mark.parametrize(
    ("code", "option", "value"),
    [
        (BLOCKS, "--batch-size", 16),
        (CONVOLUTIONS, "--batch-size", 16),
        (ATTENTION, "--length", 800),
    ],
)
def test_a_run_takes_what_was_said(tmp_path: Path, code: str, option: str, value: int) -> None:
    script, where = write(tmp_path, code), card(900)
    answer = pgmo.fit([script, option, str(value)], card=where)
    assert answer.fits["pgmo"]
    assert peak_of_run(script, where, option, str(value)) == answer.need.total("pgmo")
