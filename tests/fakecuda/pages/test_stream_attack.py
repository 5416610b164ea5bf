"""In random programs of several streams, no blocks overlap, and no copy overtakes another."""

from typing import Any

import pytest

from tests.fakecuda.pages.block_program import run
from tests.fakecuda.pages.stream_attack import BROKEN

ATTACK = """
from tests.fakecuda.pages.stream_attack import attack
tell(attack({seed}, {events}, {broken!r}))
"""


def attacked(seed: int, events: int, broken: str | None = None) -> dict[str, Any]:
    (found,) = run(ATTACK.format(seed=seed, events=events, broken=broken))
    return found


def check(found: dict[str, Any]) -> None:
    assert found["wrong"] == 0
    assert found["overtaken"] == 0
    assert found["hits"] > 0
    assert found["page_hand_overs"] > 0
    assert found["page_waits"] > 0


def test_patterns_stay_and_pending_copies_are_not_overtaken():
    check(attacked(seed=1, events=8_000))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, 4])
def test_neither_in_many_more(seed):
    check(attacked(seed, events=150_000))


@pytest.mark.parametrize("broken", BROKEN)
def test_what_is_broken_is_noticed(broken):
    found = attacked(seed=1, events=8_000, broken=broken)
    assert found["wrong"] + found["overtaken"] > 0
