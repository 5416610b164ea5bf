"""Looks of Python values: equal in every process as long as a value is the same."""

import subprocess
import sys
from collections import OrderedDict

import pytest

from pgmo.recompute.kept.looks import look

SETS = (
    "from pgmo.recompute.kept.looks import look\n"
    "words = {str(number) for number in range(50)}\n"
    "print(look([words, {'a': frozenset(words)}, lambda x: x in {'a', 'b', 'c'}]))"
)


class FrozenDict(OrderedDict):
    """As diffusers has it, whose `_use_default_values` is a list made of a set."""

    __module__ = "diffusers.configuration_utils"


def test_sets_look_the_same_whatever_hashes_are():
    found = {
        subprocess.run(
            [sys.executable, "-c", SETS],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


def test_names_of_options_that_were_not_given_have_no_order_in_diffusers():
    one = FrozenDict(scale=1, _use_default_values=["act_fn", "dropout"])
    other = FrozenDict(scale=1, _use_default_values=["dropout", "act_fn"])
    assert look(one) == look(other)
    other["_use_default_values"].append("norm_eps")
    assert look(one) != look(other)


@pytest.mark.parametrize(
    ("kind", "name"), [(dict, "_use_default_values"), (FrozenDict, "block_types")]
)
def test_lists_have_an_order_elsewhere(kind, name):
    assert look(kind({name: ["down", "up"]})) != look(kind({name: ["up", "down"]}))
