"""Tests of the counter that ends a rehearsed script."""

import pytest

from pgmo.rehearsal.child.iterations import IterationCounter, Stopped


class Receiver:
    """Record of the calls that the counter forwards."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda *arguments: self.calls.append((name, *arguments))


def test_a_script_ends_after_its_iterations():
    receiver = Receiver()
    counter = IterationCounter(receiver, 2)
    counter.begin(["cuda:0"])
    counter.end_iteration()
    with pytest.raises(Stopped, match="2 iterations were enough"):
        counter.end_iteration()
    assert counter.ended == 2
    assert counter.notes == []
    assert [name for name, *_ in receiver.calls] == ["begin", "end_iteration", "end_iteration"]


def test_without_a_limit_a_script_goes_on():
    counter = IterationCounter(None, None)
    for _ in range(5):
        counter.end_iteration()
    assert counter.ended == 5


def test_parameters_outside_of_the_card_are_noted():
    counter = IterationCounter(None, 3)
    counter.begin(["cpu"])
    assert counter.notes == ["the trained parameters are on cpu, not on the card"]
