"""The predicted need with pgmo is what `pgmo run` takes of the card, to the byte."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import pgmo
from pgmo.cards import Card
from pgmo.rehearsal.environment import of_card
from tests import forked
from tests.fakecuda.fit.scripts import attend, card, convolve, train

_TELL = """
import atexit
from pgmo.rehearsal import control
atexit.register(lambda: print("peak", control.peak(0)))
"""


def peak_of_run(script: str, where: Card, *arguments: str) -> int:
    """Return the bytes that `pgmo run` takes of the card, as the stub runtime counts them."""
    path = Path(script)
    path.write_text(_TELL + path.read_text())
    command = ("-m", "pgmo", "run", script, *arguments)
    ended = forked.run_command(path.parent, *command, environment=os.environ | of_card(where, 1))
    assert ended.exit_code == 0, ended.errors
    return int(ended.output.rpartition("peak ")[2])


@pytest.mark.parametrize(
    ("make", "option", "value", "mib"),
    [
        (train, "--batch-size", 16, 900),
        (convolve, "--batch-size", 16, 900),
        (attend, "--length", 800, 900),
    ],
)
def test_a_run_takes_what_was_said(
    tmp_path: Path, make: Callable[[Path], str], option: str, value: int, mib: int
) -> None:
    script, where = make(tmp_path), card(mib)
    answer = pgmo.fit([script, option, str(value)], card=where)
    assert answer.fits["pgmo"]
    assert peak_of_run(script, where, option, str(value)) == answer.need.total("pgmo")
