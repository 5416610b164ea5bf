"""When it is said that unified memory does not pay."""

from pgmo.allocator.adapters.card import Card
from pgmo.allocator.managed.pressure import Pressure

CARD = Card("cuda:0", free=20 << 30, total=24 << 30, concurrent=True)


def said(*held):
    pressure = Pressure(CARD)
    return [bool(pressure.after_replay(each << 30)) for each in held]


def test_after_a_few_iterations_in_a_row_and_once():
    assert said(30, 30, 30, 30, 30) == [False, False, True, False, False]
    assert said(30, 30, 20, 30, 30, 30) == [False] * 5 + [True]
    assert not any(said(*[20] * 9))


def test_it_says_how_far_and_what_else_there_is():
    pressure = Pressure(CARD)
    text = [pressure.after_replay(30 << 30) for _ in range(3)][-1]
    assert "30.0 GiB of unified memory, 1.50 times the 20.0 GiB that cuda:0 had free" in text
    for other in ("recomputation", "accumulation", "pgmo.extrapolate"):
        assert other in text
