"""Tests of changes whose bytes follow from the parameters."""

import math
from dataclasses import replace

import numpy as np
import pytest

from pgmo.fit.categories import NAMES
from pgmo.fit.laws.load import Load
from pgmo.fit.what_if import arithmetic
from pgmo.fit.what_if.arithmetic import (
    COMPUTED,
    STEPPING,
    TEMPORARY,
    Model,
    curves_of,
    peak,
    sharded,
    with_adapters,
    with_optimizer,
)
from pgmo.profiler.profile import Profile
from tests.unit.fit.loops import LAYERS, WEIGHT, evidence

MODEL = Model.of(evidence(2).known)


def _curves(batch: int = 8) -> np.ndarray:
    load = evidence(batch).load
    assert load is not None
    return curves_of(load)


def test_states_of_another_optimizer_take_what_their_shapes_say() -> None:
    curves = _curves()
    same = with_optimizer(curves, MODEL, arithmetic.adam_bytes, lambda _: 0)
    assert peak(same) == peak(curves)  # the loop has Adam already
    none = with_optimizer(curves, MODEL, lambda _: 0, lambda _: 0)
    assert peak(curves) - peak(none) == 2 * LAYERS * WEIGHT
    small = with_optimizer(curves, MODEL, arithmetic.adam_8bit_bytes, lambda _: 0)
    assert peak(none) < peak(small) < peak(none) + 0.3 * 2 * LAYERS * WEIGHT


def test_another_optimizer_replaces_state_and_temporaries_of_the_step() -> None:
    profile = Profile.from_columns(
        # Parameter, activation, gradient, temporary, state. Then two steps without new states.
        size=[8, 100, 8, 40, 16] + [100, 8, 40] * 2,
        start=[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
        end=[11, 3, 5, 4, 11, 7, 8, 8, 10, 11, 11],
        ticks=11,
        circular=False,
    )
    category = [NAMES.index(one) for one in ("parameters", "activations", "gradients")]
    category += [0, NAMES.index("optimizer_state"), 0, 2, 0, 0, 2, 0]
    load = Load(profile, np.array(category, np.int8), begins=(5, 8))
    curves = curves_of(load)
    assert curves[TEMPORARY].tolist() == [0, 0, 0, 40, 0, 0, 0, 40, 0, 0, 40]
    assert curves[STEPPING].tolist() == [0, 0, 0, 1, 1, 0, 0, 1, 0, 0, 1]
    assert peak(curves) == load.peak
    other = with_optimizer(curves, MODEL, lambda _: 0, lambda _: 7)
    assert other[TEMPORARY].tolist() == [0, 0, 0, 7, 7, 0, 0, 7, 0, 0, 7]
    assert not other[NAMES.index("optimizer_state")].any()


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


def test_parameters_outside_of_blocks_are_whole_on_every_rank() -> None:
    outside = replace(MODEL, outside=WEIGHT)
    more = peak(sharded(_curves(), outside, 8)) - peak(sharded(_curves(), MODEL, 8))
    assert more in (WEIGHT, WEIGHT * 15 // 8)  # more if its gradient is live at the peak


def test_adapters_of_few_layers_are_an_upper_bound() -> None:
    lora = next(one for one in COMPUTED if one.name == "LoRA")
    assert "an upper bound" not in lora.explain(MODEL)
    convolutions = replace(MODEL, shapes=[*MODEL.shapes, [[9000, 9000], 4, True, False]])
    assert "an upper bound" in lora.explain(convolutions)


def test_every_change_says_what_it_rests_on() -> None:
    for one in COMPUTED:
        assert peak(one.apply(_curves(), MODEL)) > 0, one.name
        assert one.how.startswith("computed")
    assert len({one.name for one in COMPUTED}) == len(COMPUTED)


def test_adafactor_keeps_sums_of_rows_and_columns() -> None:
    assert arithmetic.adafactor_bytes([8, 100, 50]) == 4 * 8 * (100 + 50)
    assert arithmetic.adafactor_bytes([100]) == 4 * math.prod([100])


def test_small_moments_stay_in_float32_in_8_bits() -> None:
    assert arithmetic.adam_8bit_bytes([8, 8]) == arithmetic.adam_bytes([8, 8]) == 2 * 4 * 64
    assert arithmetic.adam_8bit_bytes([1024, 1024]) < arithmetic.adam_bytes([1024, 1024]) / 3
