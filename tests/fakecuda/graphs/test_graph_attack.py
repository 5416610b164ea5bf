"""Random replays of graphs that share pages keep values, and do not overtake pending ones."""

from typing import Any

import pytest

from tests.fakecuda.pages.block_program import run

ATTACK = """
from tests.fakecuda.graphs.graph_attack import attack
report(attack({seed}, {replays}, {broken!r}, {lend}))
"""


def attacked(
    seed: int, replays: int, broken: str | None = None, lend: bool = False
) -> dict[str, Any]:
    code = ATTACK.format(seed=seed, replays=replays, broken=broken, lend=lend)
    (found,) = run(code, PGMO_GRAPHS="1")
    return found


def check(found: dict[str, Any]) -> None:
    assert found["wrong"] == 0
    assert found["overtaken"] == 0
    assert found["pages"] < found["segments"]
    assert found["waits"] > 0
    assert found["moves"] > 0


def test_values_stay_and_pending_replays_are_not_overtaken():
    check(attacked(seed=1, replays=1_000))


def test_values_stay_if_pages_are_lent():
    found = attacked(seed=1, replays=1_000, lend=True)
    check(found)
    assert found["lent"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, 4])
def test_values_stay_in_longer_attacks(seed):
    check(attacked(seed, replays=30_000))


def test_a_missing_wait_is_noticed():
    found = attacked(seed=1, replays=1_000, broken="waits")
    assert found["wrong"] + found["overtaken"] > 0
