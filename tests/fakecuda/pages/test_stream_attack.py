"""In random programs of several streams, no blocks overlap, and no copy overtakes another."""

from typing import Any

import pytest

from tests.fakecuda.pages.block_program import run
from tests.fakecuda.pages.stream_attack import BROKEN

with_and_without_pools = pytest.mark.parametrize("pools", [0, 3])


def attacked(seed: int, events: int, pools: int, broken: str | None = None) -> dict[str, Any]:
    (found,) = run(
        "from tests.fakecuda.pages.stream_attack import attack\n"
        f"report(attack({seed}, {events}, {broken!r}, {pools}))"
    )
    return found


def check(found: dict[str, Any], pools: int) -> None:
    assert (found["wrong"], found["overtaken"]) == (0, 0)
    assert found["hits"] > 0
    assert found["page_waits"] > 0
    assert found["pools" if pools else "page_hand_overs"] > 0


@with_and_without_pools
def test_patterns_stay_and_pending_copies_are_not_overtaken(pools):
    check(attacked(1, 8_000, pools), pools)


@pytest.mark.slow
@with_and_without_pools
@pytest.mark.parametrize("seed", [3, 4])
def test_patterns_and_copies_stay_intact_in_longer_programs(seed, pools):
    check(attacked(seed, 150_000, pools), pools)


@with_and_without_pools
@pytest.mark.parametrize("broken", BROKEN)
def test_planted_errors_are_noticed(broken, pools):
    found = attacked(1, 8_000, pools, broken)
    assert found["wrong"] + found["overtaken"] > 0
