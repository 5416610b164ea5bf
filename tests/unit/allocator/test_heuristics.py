"""Heuristics are equal in Python and C++, documented, and replaceable at run time."""

import ast
import inspect
import re
from dataclasses import fields
from itertools import pairwise
from pathlib import Path

import pytest

from pgmo import _core
from pgmo.allocator import heuristics
from pgmo.allocator.heuristics import NATIVE, Heuristics

HEADER = Path(__file__).parents[3] / "csrc/heuristics.hpp"
MOST = 22
DOCUMENTED = r"[A-Z].+\. Unit: [^.]+\. Reason: .+\."

DEFAULTS = {field.name: field.default for field in fields(Heuristics)}


@pytest.fixture(autouse=True)
def _defaults():
    yield
    heuristics.use(Heuristics())


def documentation():
    """Return the docstring of each field in Python, on one line."""
    (definition,) = ast.parse(inspect.getsource(Heuristics)).body
    body = definition.body
    return {
        field.target.id: " ".join(ast.literal_eval(after.value).split())
        for field, after in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(after, ast.Expr)
    }


def native_documentation():
    """Return the comment above each member in C++, on one line."""
    struct = HEADER.read_text().partition("struct Heuristics {")[2].partition("\n};")[0]
    members = re.findall(r"((?:  // .*\n)+)  \S+ (\w+) = .+;", struct)
    return {name: " ".join(comment.replace("//", "").split()) for comment, name in members}


def test_each_has_a_unit_and_a_reason():
    found = documentation() | native_documentation()
    assert set(native_documentation()) == set(NATIVE)
    assert set(found) == set(DEFAULTS)
    for name, text in found.items():
        assert re.fullmatch(DOCUMENTED, text), name


def test_there_are_no_more_of_them():
    assert len(DEFAULTS) <= MOST


def test_they_are_switched_at_run_time():
    heuristics.use(Heuristics(price=0, small_block=1))
    assert heuristics.current.price == 0
    assert _core.used_heuristics().small_block == 1
    assert _core.used_heuristics().spare_share == DEFAULTS["spare_share"]
    heuristics.use(Heuristics())
    assert heuristics.current.price == DEFAULTS["price"]
    assert _core.used_heuristics().small_block == DEFAULTS["small_block"]
