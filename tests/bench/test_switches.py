"""Every number that `bench/rules.py` switches is one of pgmo's, and the copy can be built of it."""

import re

import pytest

from pgmo.allocator import tuning
from tests.bench.scripts import BENCH

ROOT = BENCH.parent


@pytest.fixture(autouse=True)
def _path(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))


def test_every_rule_has_numbers_that_exist():
    from switches import PARTS, RULES, tree

    native = tree.numbers(ROOT)
    for name, rule in RULES.items():
        assert rule.part in PARTS, name
        assert rule.off, name
        for number, value in rule.off.items():
            usual = getattr(tuning, number, None)
            assert number in native or usual is not None, number
            assert usual != value, number


def test_native_numbers_are_read_from_the_environment():
    """And arrays keep their length."""
    from switches import tree

    for header in tree.HEADERS:
        text = tree.switched(ROOT / header, ROOT).decode()
        names = re.findall(r'switched<[\w:]+>\("PGMO_TUNING_(\w+)", ', text)
        assert set(names) <= tree.numbers(ROOT)
        assert text.count('#include "switched.hpp"') == 1
        assert len(names) > 5
    text = tree.switched(ROOT / "csrc/engine/engine.hpp", ROOT).decode()
    assert "std::array<RequestKey, tuning::kPrefixUsual> prefix_" in text


def test_rules_that_make_nothing_worse_are_found():
    from switches.table import tables, worthless

    usual = {"usual_calls": 10.0, "out_of_memory": False, "loop": "t5", "without": []}
    rows = [
        {**usual, "rule": "numbers", "over_usual": 1.0, "calls": 10.0},
        {**usual, "rule": "look_ahead", "over_usual": 1.02, "calls": 4.0},
        {**usual, "rule": "union", "over_usual": 0.9, "calls": 10.0},
        {**usual, "rule": "prefix", "over_usual": 1.0, "calls": 30.0},
    ]
    assert worthless(rows) == ["numbers", "union"]
    table = tables({"rows": rows})
    assert "| +2.0% t5 | +2.0% t5 | 10 to 4 t5 | 10 to 4 t5 |" in table
    assert "| = | = | 10 to 30 t5 | 10 to 30 t5 |" in table
