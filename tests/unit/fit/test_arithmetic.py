"""Changes whose bytes follow from the parameters."""

import math

import numpy as np
import pytest

from pgmo.fit import arithmetic
from pgmo.fit.arithmetic import COMPUTED, Model, peak, sharded, with_adapters, with_states
from pgmo.fit.categories import NAMES
from pgmo.fit.law import Load
from tests.unit.fit.loops import LAYERS, WEIGHT, evidence

MODEL = Model.of(evidence(2).known)


def _curves(batch: int = 8) -> np.ndarray:
    one = evidence(batch)
    assert one.profile is not None
    return Load(one.profile, one.category).curves


def test_states_of_another_optimizer_take_what_their_shapes_say() -> None:
    curves = _curves()
    same = with_states(curves, MODEL, arithmetic.adam_bytes)
    assert peak(same) == peak(curves)  # it was Adam
    none = with_states(curves, MODEL, lambda _: 0)
    assert peak(curves) - peak(none) == 2 * LAYERS * WEIGHT
    small = with_states(curves, MODEL, arithmetic.adam_8bit_bytes)
    assert peak(none) < peak(small) < peak(none) + 0.3 * 2 * LAYERS * WEIGHT


def test_adapters_leave_no_gradients_of_what_is_frozen() -> None:
    curves = with_adapters(_curves(), MODEL)
    adapters = LAYERS * arithmetic.RANK * 2 * 2048
    most = {name: int(curves[at].max()) for at, name in enumerate(NAMES)}
    assert most["gradients"] == 4 * adapters
    assert most["optimizer_state"] == 8 * adapters
    assert most["parameters"] == LAYERS * WEIGHT + 4 * adapters


def test_fewer_bits_take_less() -> None:
    whole, eight, four = (
        int(with_adapters(_curves(), MODEL, bits)[NAMES.index("parameters")].max())
        for bits in (None, 8, 4)
    )
    assert four < eight / 1.7
    assert eight < whole / 3.5


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_ranks_share_all_but_two_blocks(ranks: int) -> None:
    curves = sharded(_curves(), MODEL, ranks)
    most = {name: int(curves[at].max()) for at, name in enumerate(NAMES)}
    assert most["parameters"] == LAYERS * WEIGHT // ranks + 2 * WEIGHT
    assert most["optimizer_state"] == 2 * LAYERS * WEIGHT // ranks
    assert most["activations"] == int(_curves()[NAMES.index("activations")].max())


def test_every_change_says_what_it_rests_on() -> None:
    for one in COMPUTED:
        assert peak(one.apply(_curves(), MODEL)) > 0, one.name
        assert one.how.startswith("computed")
    assert len({one.name for one in COMPUTED}) == len(COMPUTED)


def test_adafactor_keeps_sums_of_rows_and_columns() -> None:
    assert arithmetic.adafactor_bytes([8, 100, 50]) == 4 * 8 * (100 + 50)
    assert arithmetic.adafactor_bytes([100]) == 4 * math.prod([100])
