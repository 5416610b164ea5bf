"""Tests of the attempt that follows one that ran out of memory."""

import pytest

from pgmo.errors import OptionError
from pgmo.fit.next_plan.attempts import possible_attempts, value_of, with_value


def test_micro_batches_make_the_same_step_until_one_is_left() -> None:
    found = possible_attempts(["t.py", "--batch-size=12", "-a", "2"], "--batch-size={}", "-a {}")
    values = [
        (value_of(one.command, "--batch-size={}"), value_of(one.command, "-a {}")) for one in found
    ]
    assert values[0] == (12, 2)
    assert {batch * steps for batch, steps in values if batch and steps} == {24}
    assert values[-1] == (1, 24)
    assert [one.change for one in found][-1] == "recompute:min"
    assert {one.change for one in found[:-1]} == {None}


def test_without_accumulation_the_batch_stays() -> None:
    found = possible_attempts(["t.py", "-b", "12"], "-b {}")
    assert [one.command for one in found] == [("t.py", "-b", "12")] * 2


def test_a_batch_that_is_not_said_is_asked_for() -> None:
    with pytest.raises(OptionError, match="add that option"):
        possible_attempts(["t.py"], "-b {}", "-a {}")


def test_the_last_of_two_counts_as_for_argparse() -> None:
    command = ["t.py", "-b", "4", "-b", "8"]
    assert value_of(command, "-b {}") == 8
    assert with_value(command, "-b {}", 2) == ("t.py", "-b", "4", "-b", "2")


def test_an_option_without_a_place_is_refused() -> None:
    with pytest.raises(OptionError, match="has no"):
        value_of(["t.py"], "--batch-size")
