"""A directory of plans for several ranks."""

from dataclasses import replace

from pgmo.allocator.plans import store
from pgmo.allocator.plans.plan_set import PlannedProfile
from pgmo.allocator.ranks import index
from pgmo.allocator.ranks.directory import Directory
from pgmo.allocator.ranks.world import World
from pgmo.packing.planner import plan
from pgmo.profiler.profile import Profile


def planned(size=64):
    profile = Profile.from_columns(size=[size, 32], start=[0, 1], end=[1, 2], ticks=2)
    return PlannedProfile(plan(profile, effort="fast"), profile)


def directory(folder, rank=0, size=4, **more):
    world = World(rank, size) if size > 1 else None
    return replace(Directory(folder, "gpt", world, "cuda", "torch 2.11.0"), **more)


def names(folder):
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def test_ranks_with_one_plan_have_one_file_and_one_entry(tmp_path):
    saved = {tuple(directory(tmp_path, rank).save([planned()], None)) for rank in range(4)}
    assert len(saved) == 1
    assert len(names(tmp_path)) == 3
    (entry,) = index.read(tmp_path / "gpt.ranks.json")
    assert (entry.world, entry.rank, entry.requests) == (4, 0, 2)


def test_each_rank_finds_its_own_and_one_that_is_new_the_nearest(tmp_path):
    for rank, size in enumerate((64, 128, 128, 256)):
        directory(tmp_path, rank).save([planned(size)], None)
    assert len(index.read(tmp_path / "gpt.ranks.json")) == 4 - 1
    for rank, size in enumerate((64, 128, 128, 256)):
        found = next(directory(tmp_path, rank).found())
        assert found.plan.size.max() == size
        assert found.profile is not None
    assert next(directory(tmp_path, 7, 8).found()).plan.size.max() == 256
    told = next(directory(tmp_path, 7, 8, framework="torch 2.13.0").found()).told
    assert told == "of rank 3 of 4, for rank 7 of 8, with torch 2.11.0 where this is torch 2.13.0"


def test_a_plan_that_took_the_place_of_another_removes_it(tmp_path):
    directory(tmp_path).save([planned(64)], None)
    before = names(tmp_path)
    directory(tmp_path).save([planned(96)], planned(64))
    after = names(tmp_path)
    assert len(after) == len(before) + 1  # the opening's profile
    assert set(before) & set(after) == {"gpt.ranks.json"}


def test_a_plan_that_others_have_stays(tmp_path):
    for rank, size in enumerate((64, 128, 64)):
        directory(tmp_path, rank).save([planned(size)], None)
    directory(tmp_path, 0).save([planned(96)], None)
    sizes = {found.plan.size.max() for found in directory(tmp_path).found()}
    assert sizes == {64, 96, 128}


def test_a_file_that_is_damaged_or_gone_is_passed_over(tmp_path):
    for rank, size in enumerate((64, 128, 256)):
        directory(tmp_path, rank, 3).save([planned(size)], None)
    by_size = {int(one.plan.size.max()): one.path for one in directory(tmp_path, 0, 3).found()}
    by_size[64].write_bytes(b"nothing")
    by_size[128].unlink()
    (left,) = directory(tmp_path, 0, 3).found()
    assert left.plan.size.max() == 256


def test_what_one_process_has_saved_is_found_too(tmp_path):
    one = planned()
    store.save([one], None, tmp_path, "gpt")
    (found,) = directory(tmp_path).found()
    assert found.told == "of a single process"
    (found,) = directory(tmp_path, size=1).found()
    assert found.plan.fingerprint == one.plan.fingerprint
