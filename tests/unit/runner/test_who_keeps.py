"""Tests of when a run takes a census of keepers, and of which census it reports."""

from types import SimpleNamespace

import pytest

from pgmo.allocator.session.verdict.growth import LiveGrowth
from pgmo.allocator.session.verdict.summary import Summary
from pgmo.runner.keepers import watch
from pgmo.runner.keepers.census import Census, KeptBlock
from pgmo.runner.keepers.place import Place
from pgmo.runner.keepers.watch import WhoKeeps

MIB = 1 << 20
GROWTH = LiveGrowth(2 * MIB, 40 * MIB, 20)


class Program:
    """A program whose censuses are those of `places`: name to MiB."""

    def __init__(self, monkeypatch):
        self.places = {}
        self.taken = 0
        self.scope = Place(None, "train", splits=True)
        monkeypatch.setattr(watch, "take_census", self.take)

    def take(self, error=None):
        self.taken += 1
        blocks = [
            KeptBlock("cpu", size * MIB, Place(self.scope, f".{name}", "list"), address=address)
            for address, (name, size) in enumerate(self.places.items(), start=1)
        ]
        return Census(tuple(blocks))


@pytest.fixture
def program(monkeypatch):
    return Program(monkeypatch)


@pytest.fixture
def who_keeps():
    return WhoKeeps()


def sessions(growth=GROWTH):
    return [SimpleNamespace(counted=lambda: SimpleNamespace(growth=growth))]


def summary(who_keeps):
    made = Summary(iterations=26, recorded=4, replayed=22, growth=GROWTH)
    return who_keeps.in_summary(made, "cpu")


def run_until(who_keeps, program, last, growth=GROWTH):
    for iteration in range(1, last + 1):
        program.places["history"] = 2 * iteration
        who_keeps.after_iteration(sessions(growth))


def test_growth_is_what_is_more_than_after_the_sixth_iteration(program, who_keeps):
    program.places["weights"] = 500
    run_until(who_keeps, program, 26)
    who_keeps.at_end()
    found = summary(who_keeps)
    assert found.growth.kept == ("train.history (list of 1 tensor, 52.0 MiB)",)
    assert found.kept[0] == "at the end: train.weights (list of 1 tensor, 500 MiB)"


def test_variables_that_are_gone_at_the_end_are_reported_from_before(program, who_keeps):
    run_until(who_keeps, program, 26)
    program.places.clear()
    who_keeps.at_end()
    found = summary(who_keeps)
    assert found.growth.kept == ("train.history (list of 1 tensor, 44.0 MiB)",)
    assert found.kept == ("after iteration 22: train.history (list of 1 tensor, 44.0 MiB)",)


def test_blocks_of_a_pass_that_an_error_has_cut_short_did_not_grow(program, who_keeps):
    run_until(who_keeps, program, 26)
    program.places["hidden"] = 45  # about as many MiB as have grown
    who_keeps.at_end(MemoryError())
    assert summary(who_keeps).growth.kept == ("train.history (list of 1 tensor, 44.0 MiB)",)


def test_a_place_with_far_more_bytes_than_have_grown_is_not_named(program, who_keeps):
    run_until(who_keeps, program, 6)
    program.places = {"hidden": 4000}
    run_until(who_keeps, program, 3, growth=None)
    program.places = {"hidden": 4000}
    who_keeps.at_end(MemoryError())
    assert summary(who_keeps).growth.kept == ()


def test_without_growth_there_are_two_censuses(program, who_keeps):
    run_until(who_keeps, program, 1000, growth=None)
    who_keeps.at_end()
    assert program.taken == 2


def test_a_long_run_that_grows_has_few_censuses(program, who_keeps):
    run_until(who_keeps, program, 1000)
    assert program.taken <= 13


def test_an_error_in_a_census_ends_nothing_but_the_search(monkeypatch):
    def fails(error=None):
        raise KeyError("odd")

    monkeypatch.setattr(watch, "take_census", fails)
    who_keeps = WhoKeeps()
    for _ in range(7):
        who_keeps.after_iteration(sessions())
    who_keeps.at_end()
    assert who_keeps.error == "keepers were not found: KeyError: 'odd'"
    assert summary(who_keeps).kept == ()


def test_blocks_found_in_another_place_have_not_grown(program, who_keeps):
    program.places |= {"model in train()": 30, "gradients in train()": 30}
    run_until(who_keeps, program, 26)
    del program.places["gradients in train()"]
    program.places["model"] = program.places.pop("model in train()")
    program.places["gradients"] = 30
    who_keeps.at_end()
    assert summary(who_keeps).growth.kept == ("train.history (list of 1 tensor, 52.0 MiB)",)
