import pytest

import pgmo
from pgmo.profiler.iterations.from_trace import profile_of
from pgmo.profiler.profile import Profile
from pgmo.profiler.tag import Tag
from tests.unit.report.loops import Loop

MIB = 2**20
TAGS = (Tag("Net.a", "aten.mm", "forward"), Tag("Net.b", "aten.mm", "backward"))


def make(sizes: list[int], tags: list[int]) -> Profile:
    n = len(sizes)
    columns = {"size": sizes, "start": list(range(n)), "end": [n] * n, "tag": tags}
    return Profile.from_columns(**columns, ticks=n, tags=TAGS)


@pytest.fixture
def paths(tmp_path) -> list[str]:
    names = [str(tmp_path / f"{name}.pgmoprof") for name in ("small", "large")]
    make([MIB, 2 * MIB], [0, 1]).save(names[0])
    make([MIB, 5 * MIB, MIB], [0, 1, 1]).save(names[1])
    return names


def test_two_profiles(paths, printed, reported):
    fields = reported("compare", *paths)
    assert (fields["before"]["max_load"], fields["after"]["max_load"]) == (3 * MIB, 7 * MIB)
    assert fields["peaks"]["phase"] == [{"name": "backward", "before": 2 * MIB, "after": 6 * MIB}]
    shown = printed("compare", *paths)
    for expected in (
        "+4.00 MiB (+133.3%)",
        "They make different requests",
        "at the peak, by module",
    ):
        assert expected in shown
    assert "Net.b, aten.mm (backward): 1 blocks of 2.00 MiB in all, now 2 of 6.00 MiB" in shown


def test_a_profile_and_a_plan_in_either_order(paths, tmp_path, printed):
    plan = pgmo.plan(Profile.load(paths[0]))
    target = str(tmp_path / "small.pgmoplan")
    plan.save(target)
    for order in ((paths[0], target), (target, paths[0])):
        shown = printed("compare", *order)
        assert "The plan is for these requests; its arena is 0.00% above the max load." in shown
    assert "The plan is for other requests" in printed("compare", paths[1], target)


def test_one_profile_beside_pytorch(tmp_path, reported, run):
    path = tmp_path / "steps.pgmoprof"
    profile = Profile.from_columns(
        size=[20 * MIB, 20 * MIB, 30 * MIB], start=[0, 1, 2], end=[2, 2, 3], ticks=3
    )
    profile.save(path)
    fields = reported("compare", path)
    assert fields["max_load"] == fields["plan"]["arena"] == 40 * MIB
    assert fields["reserved"]["default"]["peak"] == 70 * MIB
    said = run("compare", path)
    assert "would reserve 70.0 MiB on CUDA by default for these blocks" in said.out
    assert "plan        needs 40.0 MiB" in said.out
    assert "max load    40.0 MiB" in said.out
    assert said.err == f"Next: pgmo plan {path}\n"


def test_files_that_cannot_be_compared_are_refused(paths, tmp_path, refused):
    assert "x.npz: cannot be read" in refused("compare", paths[0], "x.npz")
    target = str(tmp_path / "small.pgmoplan")
    pgmo.plan(Profile.load(paths[0])).save(target)
    assert "a plan, which cannot be compared with PyTorch's allocator" in refused("compare", target)


def test_parts_of_the_unused_memory_of_two_recordings(tmp_path, printed, reported):
    def recording(name, hole):
        loop = Loop()
        loop.segment(512, 64 << 20)
        loop.alloc(MIB)
        first = loop.alloc(hole << 20)
        loop.alloc(MIB)
        loop.free(first)
        loop.alloc(40 << 20)
        profile_of(loop.trace()).save(tmp_path / name)
        return str(tmp_path / name)

    names = recording("a.pgmoprof", 4), recording("b.pgmoprof", 8)
    before, after = reported("compare", *names)["unused"]
    assert (before["between"], after["between"]) == (4 * MIB, 8 * MIB)
    assert (before["ends"], after["ends"]) == (18 * MIB, 14 * MIB)
    shown = printed("compare", *names)
    assert "+4.00 MiB (+100.0%)" in shown
    assert "private pools" not in shown
