"""Tests with thousands of changed files, and of the fuzzer itself."""

import os
import subprocess
import sys

from tests.fuzz import planted
from tests.fuzz.campaign import attack
from tests.fuzz.inputs import make_input

INPUTS = 2_000  # `make test-all` tries a million
WORKERS = min(4, os.cpu_count() or 1)


def test_no_file_does_more_than_to_be_read_or_refused():
    figures = attack(INPUTS, workers=WORKERS)
    assert figures.failures == []
    assert figures.inputs == INPUTS
    read = {name: count for name, count in figures.outcomes.items() if name.endswith(" read")}
    # Of each kind, some files must be read, as the first check refuses others.
    assert len(read) == 6
    assert min(read.values()) > INPUTS // 500


def test_planted_faults_are_noticed():
    figures = attack(20, workers=1, module="tests.fuzz.planted")
    errors = {one["number"]: one["error"] for one in figures.failures}
    assert sorted(errors) == [planted.RAISES, planted.HANGS, planted.ENDS, planted.EATS]
    assert "OverflowError: planted" in errors[planted.RAISES]
    assert "ended with -14" in errors[planted.HANGS]
    assert "ended with -11" in errors[planted.ENDS]
    assert "bytes of memory" in errors[planted.EATS]
    assert figures.inputs == 20


def test_an_input_is_the_same_in_every_process():
    numbers = range(60)
    code = (
        "import hashlib; from tests.fuzz.inputs import make_input\n"
        f"for n in {numbers!r}: print(hashlib.sha256(make_input(0, n).data).hexdigest())"
    )
    command = [sys.executable, "-c", code]
    errors = {
        subprocess.run(
            command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(errors) == 1
    assert len(set(errors.pop().split())) > 50
    assert make_input(0, 5) != make_input(1, 5)
