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


def test_growth_at_the_peak_is_given_by_module_operator_and_phase():
    compared = compare(profile([10, 20], [0, 1]), profile([10, 50, 5], [0, 1, 2]))
    assert (compared.before.max_load, compared.after.max_load) == (30, 65)
    assert compared.peaks["module"] == (Change("Net.b", 20, 50), Change("Net.c", 0, 5))
    assert compared.peaks["op"] == (Change("aten.mm", 30, 60), Change("aten.relu", 0, 5))
    assert compared.peaks["phase"] == (Change("backward", 20, 50), Change("forward", 10, 15))
    assert "file" not in compared.peaks
    for changes in compared.peaks.values():
        assert sum(one.growth for one in changes) == 35


def test_new_gone_and_resized_origins():
    compared = compare(profile([10, 20, 7], [0, 1, 1]), profile([10, 50, 5], [0, 1, 2]))
    assert compared.new == (Change("Net.c, aten.relu (forward)", 0, 5),)
    assert compared.gone == ()
    assert compared.resized == (Resized("Net.b, aten.mm (backward)", 2, 27, 1, 50),)
    assert not compared.same
    back = compare(profile([10, 50, 5], [0, 1, 2]), profile([10, 20, 7], [0, 1, 1]))
    assert back.gone == (Change("Net.c, aten.relu (forward)", 5, 0),)


def test_sizes_that_change_while_their_sum_does_not_are_resized():
    (one,) = compare(profile([10, 30], [0, 0]), profile([20, 20], [0, 0])).resized
    assert (one.before_size, one.after_size) == (40, 40)


def test_a_profile_with_itself_has_no_changes():
    one = profile([10, 20], [0, 1])
    compared = compare(one, one)
    assert compared.same
    assert not any((*compared.peaks.values(), compared.new, compared.gone, compared.resized))


def test_a_profile_and_its_plan():
    one = Profile.from_columns(size=[100, 28, 8], start=[0, 1, 2], end=[1, 3, NEVER], ticks=3)
    plan = pgmo.plan(one)
    compared = compare(one, plan)
    assert compared.same
    assert (compared.before.kind, compared.before.arena, compared.before.persistent) == (
        "profile",
        None,
        8,
    )
    assert (compared.after.kind, compared.after.arena, compared.after.persistent) == (
        "plan",
        plan.arena,
        8,
    )
    assert compared.before.requested == compared.after.requested == 128
    assert compared.peaks == {}
    assert not compare(profile([1], [0]), plan).same
