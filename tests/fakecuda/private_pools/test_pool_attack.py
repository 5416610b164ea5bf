"""In random programs with several streams and pools, no live block is overwritten."""

from typing import Any

import pytest

from tests.fakecuda.pages.block_program import run
from tests.fakecuda.pages.stream_attack import BROKEN

ATTACK = """
from tests.fakecuda.pages.stream_attack import attack
tell(attack({seed}, {events}, {broken!r}, pools=3))
"""


def attacked(seed: int, events: int, broken: str | None = None) -> dict[str, Any]:
    (found,) = run(ATTACK.format(seed=seed, events=events, broken=broken))
    return found


def check(found: dict[str, Any]) -> None:
    assert (found["wrong"], found["overtaken"]) == (0, 0)
    assert found["hits"] > 0
    assert found["pools"] > 0
    assert found["page_waits"] > 0


def test_a_short_attack_finds_no_error():
    check(attacked(seed=1, events=8_000))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, 4])
def test_long_attacks_find_no_error(seed):
    check(attacked(seed, events=150_000))


@pytest.mark.parametrize("broken", BROKEN)
def test_attacks_notice_each_broken_rule(broken):
    found = attacked(seed=1, events=8_000, broken=broken)
    assert found["wrong"] + found["overtaken"] > 0
