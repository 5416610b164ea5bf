"""Tests of the memory that the model reserves for a profile."""

import numpy as np
import pytest

from pgmo.errors import OptionError
from pgmo.profiler.caching.model import simulate_profile
from pgmo.profiler.profile import NEVER, Profile
from tests.unit.profiler.examples import small_profile

MIB = 1 << 20


def test_blocks_inside_an_iteration() -> None:
    profile = Profile.from_columns(
        size=[30 * MIB, 20 * MIB, 10 * MIB], start=[0, 1, 2], end=[1, 3, 3], ticks=3
    )
    result = simulate_profile(profile)
    # The second block takes the place of the first one, and the third lies behind it.
    assert result.reserved.tolist() == [30 * MIB] * 3
    assert result.active.tolist() == [30 * MIB, 20 * MIB, 30 * MIB]
    assert (result.peak_reserved, result.peak_active) == (30 * MIB, 30 * MIB)
    assert (result.fragmentation, result.failed, result.retries) == (0.0, None, 0)
    assert (result.address[1], result.address[2]) == (
        result.address[0],
        result.address[0] + 20 * MIB,
    )


def test_wrapping_and_doubly_live_blocks_are_alive_beside_their_successors() -> None:
    # The block ends at tick 0 two iterations later: two are live at a time, and never three.
    profile = Profile.from_columns(size=[12 * MIB, 512], start=[0, 1], end=[4, 2], ticks=2)
    assert simulate_profile(profile, iterations=1).peak_reserved == 14 * MIB
    for iterations in (2, 3, 7):
        result = simulate_profile(profile, iterations=iterations)
        assert result.peak_reserved == 26 * MIB
        assert result.active.tolist() == [24 * MIB, 24 * MIB + 512]


def test_a_line_is_run_once() -> None:
    profile = Profile.from_columns(
        size=[12 * MIB, 14 * MIB], start=[0, 1], end=[NEVER, 2], ticks=2, circular=False
    )
    result = simulate_profile(profile, iterations=9)
    assert result.active.tolist() == [12 * MIB, 26 * MIB]


def test_out_of_memory_ends_it() -> None:
    profile = Profile.from_columns(
        size=[12 * MIB, 14 * MIB, 16 * MIB], start=[0, 1, 2], end=[3, 3, 3], ticks=3
    )
    result = simulate_profile(profile, capacity=30 * MIB)
    assert result.failed == 2
    assert result.reserved.tolist() == [12 * MIB, 26 * MIB, 26 * MIB]
    assert result.address[2] == 0
    assert simulate_profile(profile, capacity=42 * MIB).failed is None


def test_a_convolution_goes_without_its_workspace() -> None:
    profile = Profile.from_columns(
        size=[20 * MIB, 24 * MIB, 26 * MIB, 20 * MIB],
        start=[0, 1, 2, 3],
        end=[4, 2, 3, 4],
        ticks=4,
        circular=False,
    )
    result = simulate_profile(profile, capacity=40 * MIB, convolution=[-1, 5, 5, -1])
    assert result.failed is None
    assert result.peak_active == 40 * MIB
    # PyTorch caches the failure, so that the second convolution requests no workspace.
    assert result.retries == 1
    assert simulate_profile(profile, capacity=40 * MIB, convolution=[-1, 5, -1, -1]).failed == 2


def test_every_kind_of_block_at_once() -> None:
    result = simulate_profile(small_profile(), iterations=4)
    again = simulate_profile(small_profile(), iterations=5)
    assert result.failed is None
    assert result.peak_reserved >= result.peak_active >= small_profile().max_load()
    assert np.array_equal(result.active, again.active)


def test_no_iteration_is_refused() -> None:
    with pytest.raises(OptionError, match="iterations is 0; simulate at least one"):
        simulate_profile(small_profile(), iterations=0)


def test_it_says_the_figures() -> None:
    profile = Profile.from_columns(size=[3 * MIB, 80 * MIB], start=[0, 1], end=[2, 2], ticks=2)
    assert repr(simulate_profile(profile, capacity=60 * MIB)) == (
        "Reserved(20.0 MiB reserved, 3.00 MiB active, 85.0% fragmented, 1 retries, "
        "out of memory at request 1)"
    )
