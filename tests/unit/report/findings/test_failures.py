import pytest

from pgmo.profiler.profile import Profile
from pgmo.profiler.trace import Event, Trace
from pgmo.report.findings.failures import find_failures
from pgmo.report.summary import explain
from tests.unit.report.loops import TAGS, train

MIB = 2**20


def failing(requested: int) -> Trace:
    rows = [
        *[(Event.SEGMENT_ALLOC, 512, 100 * MIB, -1), (Event.ALLOC, 512, 30 * MIB, -1)],
        *[(Event.ALLOC, 60 * MIB, 10 * MIB, -1), (Event.OOM, 0, requested, 0)],
        (Event.FREE_COMPLETED, 512, 30 * MIB, -1),
    ]
    kind, address, size, tag = zip(*rows, strict=True)
    return Trace.from_columns(kind=kind, address=address, size=size, tag=tag, tags=TAGS)


def test_a_failure_says_what_was_live_and_reserved_at_that_moment():
    (failure,) = find_failures(failing(50 * MIB))
    assert (failure.row, failure.size) == (3, 50 * MIB)
    assert (failure.live, failure.reserved, failure.unused) == (40 * MIB, 100 * MIB, 60 * MIB)
    assert failure.origin == "train.py:10 in step, Net, aten.mm (forward)"
    assert find_failures(train(4)) == ()


@pytest.mark.parametrize(
    ("requested", "remedy"),
    [
        (50 * MIB, "have sufficed in one piece: run the script with `pgmo run`"),
        (70 * MIB, "origins at the peak"),
    ],
)
def test_the_advice_depends_on_whether_the_unused_bytes_would_have_been_enough(requested, remedy):
    profile = Profile.from_columns(
        size=[8], start=[0], end=[1], ticks=1, circular=False, trace=failing(requested)
    )
    explained = explain(profile, predict=False)
    (hint,) = [one for one in explained.hints if one.title == "Out of memory"]
    assert remedy in hint.text
    assert "blocks took 40.0 MiB, and 60.0 MiB of the reserved memory held no block" in hint.text
    assert any(line.startswith("failed      a request of") for line in explained.lines())
