import numpy as np
import pytest

import pgmo
from pgmo.errors import OptionError
from pgmo.profiler.profile import Profile
from pgmo.report.summary import explain
from tests.unit.report.loops import TAGS, Loop, train


@pytest.fixture
def profile() -> Profile:
    return Profile.from_columns(
        size=[800, 2048, 4, 4096],
        start=[0, 1, 2, 3],
        end=[6, 4, 4, 7],
        ticks=4,
        tag=[-1, 0, 1, 3],
        tags=TAGS,
        trace=train(12, keep_losses_every=1),
    )


def test_every_part_agrees_with_the_profile(profile):
    plan = pgmo.plan(profile)
    explained = explain(profile, plan)
    assert explained.max_load == profile.max_load() == explained.peak.size
    assert explained.holders["phase"] == explained.peak.phases
    assert (explained.plan.arena, explained.plan.gap) == (plan.arena, plan.gap)
    assert [leak.growth for leak in explained.leaks.found] == [4.0]
    assert explained.residents.size == 4096 + 8192 + 4  # parameters, state and the kept first loss
    assert explained.drift.compared == 10
    assert explained.fragmentation is None  # the trace has no segments
    assert explain(profile).plan is None
    assert explain(profile, predict=False).reserved == {}


def test_words_have_the_figures(profile):
    shown = "\n".join(explain(profile, pgmo.plan(profile)).lines())
    for expected in (
        "peak        7.56 KiB in 4 blocks, at tick 1 of 4",
        "backward 4.00 KiB",
        "resident    12.0 KiB in 3 blocks",
        "plan        needs",
        "leaks       4 B per iteration",
        "certain   4 B/iteration from train.py:12 in step, aten.nll_loss (forward)",
        "drift       1 of 10 iterations differ",
        "hint        A number is kept as a tensor: 4 B",
    ):
        assert expected in shown


def test_an_empty_profile_is_explained_as_nothing():
    none = np.zeros(0, np.int64)
    explained = explain(Profile.from_columns(size=none, start=none, end=none, ticks=0))
    assert (explained.max_load, explained.hints) == (0, ())
    assert explained.lines()


def test_a_silly_top_is_refused(profile):
    with pytest.raises(OptionError, match="top must be at least 1, not 0"):
        explain(profile, top=0)


def test_reserved_memory_includes_blocks_that_are_always_alive():
    loop = Loop()
    loop.segment(512, 10_000)
    loop.alloc(3000)
    for _ in range(5):
        loop.mark()
        loop.free(loop.alloc(100))
    columns = {"size": [100], "start": [0], "end": [1], "ticks": 1, "trace": loop.trace()}
    text = "\n".join(explain(Profile.from_columns(**columns)).lines())
    assert "2.93 KiB of the reserved bytes are blocks that are always alive" in text
    text = "\n".join(explain(Profile.from_columns(**columns, circular=False)).lines())
    assert "2.93 KiB of the reserved" not in text
