from dataclasses import replace
from fractions import Fraction

import pytest

from pgmo.errors import OptionError
from pgmo.packing.planner import plan
from pgmo.profiler.profile import Profile
from pgmo.report.gate.growth import Grown, find_growth
from pgmo.report.gate.tolerance import Tolerance
from tests.unit.report.gate.states import state


def figures(before, after, tolerance="0%"):
    found = find_growth("net", before, after, Tolerance.read(tolerance))
    return {figure.name: figure for figure in found.figures}


def failed(*arguments):
    return [name for name, figure in figures(*arguments).items() if figure.failed]


def test_equal_states_pass():
    assert failed(state(), state()) == []


def test_each_figure_fails_by_itself():
    assert failed(state(), state(second=4000)) == ["max load", "arena"]
    assert failed(state(), state(persistent=8)) == ["persistent", "blocks"]
    later = replace(state(), start=[0, 2], end=[1, 3])  # not live at once
    assert failed(later, state()) == ["max load", "arena"]


def test_less_is_never_a_failure():
    assert failed(state(second=4000, persistent=8), state()) == []


def test_grown_figures_name_modules_and_operators():
    found = figures(state(), state(second=4000, persistent=8))
    assert found["max load"].grown == (
        Grown("Net.b", 3000, 4000, "module"),
        Grown("aten.relu", 3000, 4000, "op"),
    )
    assert found["persistent"].grown[0] == Grown("Net.b", 0, 8, "module")
    assert found["blocks"].grown[0] == Grown("Net.b", 1, 2, "module")


def test_a_tolerance_is_a_share_or_a_number_of_bytes():
    before, after = state(), state(second=3040)  # 1 % more in total
    assert failed(before, after, "0.9%") == ["max load", "arena"]
    assert failed(before, after, "2%") == []
    assert failed(before, after, "39 B") == ["max load", "arena"]
    assert failed(before, after, "64 B") == []


def test_bytes_do_not_allow_more_blocks():
    assert failed(state(), state(persistent=8), "1 MiB") == ["blocks"]


def test_plans_have_figures_and_know_no_origins():
    found = figures(plan(state()), plan(state(second=4000)))
    assert found["arena"].failed
    assert found["arena"].grown == ()


def test_a_profile_beside_a_plan():
    assert failed(plan(state()), state()) == []
    assert "max load" in failed(plan(state()), state(second=4000))


def test_nothing_to_plan():
    empty = Profile.from_columns(size=[8], start=[0], end=[-1], ticks=1)
    assert failed(empty, empty) == []
    assert figures(empty, empty)["arena"].after == 0


@pytest.mark.parametrize("text", ["5", "much", "-1%", "%", "1 % more", ""])
def test_invalid_tolerances_are_refused(text):
    with pytest.raises(OptionError, match=r"write"):
        Tolerance.read(text)


def test_tolerances_are_exact_and_shown():
    assert Tolerance.read("0.1%").share == Fraction(1, 1000)
    assert str(Tolerance.read("2.5 %")) == "2.5 %"
    assert str(Tolerance.read("64KiB")) == "64.0 KiB"
    assert Tolerance.read("0").limit(7) == 7
