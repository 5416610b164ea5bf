"""Directory of plans for several ranks."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from pgmo.allocator.plans.directory import PlanDirectory
from pgmo.allocator.plans.plan_set import PlannedProfile
from pgmo.packing.plan import Plan
from pgmo.packing.planner import plan
from pgmo.profiler.profile import Profile
from pgmo.world import World


def planned(size=64, requests=2):
    columns = {"start": range(requests), "end": range(1, requests + 1), "ticks": requests}
    profile = Profile.from_columns(size=[size] * requests, **columns)
    return PlannedProfile(plan(profile, effort="fast", alignment=64), profile)


def directory(folder, rank=0, size=4):
    return PlanDirectory(folder, "gpt", World(rank, size) if size > 1 else None)


def own_size(one):
    found = one.own(alignment=64)
    return None if found is None else int(found[1].size.max())


def sizes(one):
    return [int(plan.size.max()) for _, plan in one.all(alignment=64)]


def plans(folder):
    return sorted(folder.glob("*.pgmoplan"))


def test_ranks_with_different_plans_have_different_files_and_find_their_own(tmp_path):
    for rank, size in enumerate((64, 128, 128, 256)):
        directory(tmp_path, rank).save([planned(size)], None)
    assert len(plans(tmp_path)) == 3
    assert [own_size(directory(tmp_path, rank)) for rank in range(4)] == [64, 128, 128, 256]
    for stranger in (directory(tmp_path, 3, 8), directory(tmp_path, size=1)):
        assert own_size(stranger) is None
        assert sorted(sizes(stranger)) == [64, 128, 256]


def test_a_plan_with_another_opening_is_a_different_plan(tmp_path):
    directory(tmp_path, 0).save([planned(64)], None)
    directory(tmp_path, 1).save([planned(64)], planned(96))
    assert len(plans(tmp_path)) == 2


def test_the_files_of_a_plan_go_when_its_rank_has_another_one(tmp_path):
    before = directory(tmp_path).save([planned(64), planned(128)], planned(96))
    assert len(before) == 4
    after = directory(tmp_path).save([planned(96)], None)
    assert not any(path.exists() for path in before)
    assert all(path.exists() for path in after)


@pytest.mark.parametrize("other", [directory(".", 1).world, directory(".", 0, 8).world])
def test_a_plan_that_another_rank_has_stays(tmp_path, other):
    PlanDirectory(tmp_path, "gpt", other).save([planned(64)], None)
    directory(tmp_path).save([planned(64)], None)
    directory(tmp_path).save([planned(96)], None)
    assert own_size(PlanDirectory(tmp_path, "gpt", other)) == 64
    assert sorted(sizes(directory(tmp_path))) == [64, 96]


def test_another_programs_plans_are_not_found(tmp_path):
    PlanDirectory(tmp_path, "gpt-large", World(0, 4)).save([planned()], None)
    assert own_size(directory(tmp_path)) is None
    assert sizes(directory(tmp_path)) == []


def test_a_file_that_is_damaged_or_gone_is_passed_over(tmp_path):
    for rank, size in enumerate((64, 128, 256)):
        *_, path = directory(tmp_path, rank, 3).save([planned(size)], None)
        if rank == 0:
            path.write_bytes(b"nothing")
        elif rank == 1:
            path.unlink()
    assert [own_size(directory(tmp_path, rank, 3)) for rank in range(3)] == [None, None, 256]
    assert sizes(directory(tmp_path, 0, 3)) == [256]


def test_a_plan_of_another_alignment_is_passed_over(tmp_path):
    directory(tmp_path).save([planned()], None)
    assert directory(tmp_path).own(alignment=512) is None
    assert list(directory(tmp_path).all(alignment=512)) == []


@pytest.mark.parametrize(
    "name", ["", "../gpt-0123abcd.pgmoplan", "gpt-*.pgmoplan", "gpt.pgmoplan", 4096 * "a", "\xff"]
)
def test_a_name_that_no_rank_has_written_leads_nowhere(tmp_path, name):
    directory(tmp_path, 0, 1).save([planned()], None)
    (tmp_path / "gpt-rank0-of-4.txt").write_text(name, "latin-1")
    assert directory(tmp_path).own(alignment=64) is None
    assert sizes(directory(tmp_path)) == [64]


def test_a_plan_of_one_process_is_its_own_and_is_found_by_ranks(tmp_path):
    directory(tmp_path, 0, 1).save([planned()], None)
    assert own_size(directory(tmp_path, size=1)) == 64
    assert own_size(directory(tmp_path)) is None
    assert sizes(directory(tmp_path)) == [64]


def test_a_directory_of_the_version_before_is_read(tmp_path):
    """The old directory has an index, and no file for each rank with the name of its plan."""
    *_, path = directory(tmp_path).save([planned()], None)
    (tmp_path / "gpt-rank0-of-4.txt").unlink()
    (tmp_path / "gpt.ranks.json").write_text('{"format": "pgmo ranks 1", "entries": []}')
    assert own_size(directory(tmp_path)) is None
    ((found, _),) = directory(tmp_path).all(alignment=64)
    assert found == path
    directory(tmp_path).save([planned(96)], None)
    assert own_size(directory(tmp_path)) == 96


def test_a_reader_finds_a_file_whole_while_ranks_write_it(tmp_path):
    large = planned(requests=20_000)
    for _ in range(5):
        with ThreadPoolExecutor(8) as pool:
            written = [
                pool.submit(directory(tmp_path, rank, 8).save, [large], None) for rank in range(8)
            ]
            while not all(one.done() for one in written):
                for path in plans(tmp_path):
                    assert len(Plan.load(path)) == 20_000
        assert len({tuple(one.result()) for one in written}) == 1
        for path in (*plans(tmp_path), *tmp_path.glob("*.pgmoprof")):
            path.unlink()
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".partial")]
