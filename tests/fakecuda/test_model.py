"""The model of PyTorch's caching allocator equals the genuine one on random programs."""

import pytest

from tests.fakecuda.check_model import run_apart
from tests.unit.profiler.caching.request_sequences import PROGRAMS, Program


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: f"{program.seed} {program.conf}")
def test_every_step_is_the_same(program: Program) -> None:
    outcome = run_apart(program, programs=1)
    assert "genuine" not in outcome, outcome
    assert outcome["steps"] > program.steps
