import pgmo
from pgmo.profiler.profile import NEVER, Profile
from pgmo.profiler.tag import Tag
from pgmo.report.findings.comparison import Change, Resized, compare

TAGS = (
    Tag("Net.a", "aten.mm", "forward"),
    Tag("Net.b", "aten.mm", "backward"),
    Tag("Net.c", "aten.relu", "forward"),
)


def profile(sizes: list[int], tags: list[int]) -> Profile:
    n = len(sizes)
    return Profile.from_columns(
        size=sizes, start=list(range(n)), end=[n] * n, ticks=n, tag=tags, tags=TAGS
    )


def test_who_grew_at_the_peak_by_each_way_of_counting():
    told = compare(profile([10, 20], [0, 1]), profile([10, 50, 5], [0, 1, 2]))
    assert (told.before.max_load, told.after.max_load) == (30, 65)
    assert told.peaks["module"] == (Change("Net.b", 20, 50), Change("Net.c", 0, 5))
    assert told.peaks["op"] == (Change("aten.mm", 30, 60), Change("aten.relu", 0, 5))
    assert told.peaks["phase"] == (Change("backward", 20, 50), Change("forward", 10, 15))
    assert "file" not in told.peaks
    for changes in told.peaks.values():
        assert sum(one.growth for one in changes) == 35


def test_new_gone_and_resized_origins():
    told = compare(profile([10, 20, 7], [0, 1, 1]), profile([10, 50, 5], [0, 1, 2]))
    assert told.new == (Change("Net.c, aten.relu (forward)", 0, 5),)
    assert told.gone == ()
    assert told.resized == (Resized("Net.b, aten.mm (backward)", 2, 27, 1, 50),)
    assert not told.same
    back = compare(profile([10, 50, 5], [0, 1, 2]), profile([10, 20, 7], [0, 1, 1]))
    assert back.gone == (Change("Net.c, aten.relu (forward)", 5, 0),)


def test_sizes_that_change_while_their_sum_does_not_are_resized():
    (one,) = compare(profile([10, 30], [0, 0]), profile([20, 20], [0, 0])).resized
    assert (one.before_size, one.after_size) == (40, 40)


def test_a_profile_with_itself_has_no_changes():
    one = profile([10, 20], [0, 1])
    told = compare(one, one)
    assert told.same
    assert not any((*told.peaks.values(), told.new, told.gone, told.resized))


def test_a_profile_and_its_plan():
    one = Profile.from_columns(size=[100, 28, 8], start=[0, 1, 2], end=[1, 3, NEVER], ticks=3)
    plan = pgmo.plan(one)
    told = compare(one, plan)
    assert told.same
    assert (told.before.kind, told.before.arena, told.before.persistent) == ("profile", None, 8)
    assert (told.after.kind, told.after.arena, told.after.persistent) == ("plan", plan.arena, 8)
    assert told.before.requested == told.after.requested == 128
    assert told.peaks == {}
    assert not compare(profile([1], [0]), plan).same
