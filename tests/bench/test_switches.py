"""Tests of the switches of heuristics in `bench/rules.py`, and of its table."""

from dataclasses import fields

from pgmo.allocator.heuristics import Heuristics


def test_every_rule_changes_heuristics():
    from switches import PARTS, RULES

    defaults = {field.name: field.default for field in fields(Heuristics)}
    for name, rule in RULES.items():
        assert rule.part in PARTS, name
        assert rule.off, name
        for heuristic, value in rule.off.items():
            assert defaults[heuristic] != value, name


def test_native_ones_take_the_values():
    from switches import RULES

    from pgmo import _core
    from pgmo.allocator import heuristics

    try:
        for rule in RULES.values():
            heuristics.use(Heuristics(**rule.off))
            for name in heuristics.NATIVE:
                assert getattr(_core.used_heuristics(), name) == getattr(heuristics.current, name)
    finally:
        heuristics.use(Heuristics())


def test_rules_that_make_nothing_worse_are_found():
    from switches.table import tables, worthless

    usual = {"usual_calls": 10.0, "out_of_memory": False, "loop": "t5"}
    rows = [
        {**usual, "rule": "spare", "over_usual": 1.0, "calls": 10.0},
        {**usual, "rule": "stale", "over_usual": 1.02, "calls": 4.0},
        {**usual, "rule": "backoff", "over_usual": 0.9, "calls": 10.0},
        {**usual, "rule": "price", "over_usual": 1.0, "calls": 30.0},
    ]
    assert worthless(rows) == ["spare", "backoff"]
    table = tables({"rows": rows})
    assert "| +2.0% t5 | +2.0% t5 | 10 to 4 t5 | 10 to 4 t5 |" in table
    assert "| = | = | 10 to 30 t5 | 10 to 30 t5 |" in table
