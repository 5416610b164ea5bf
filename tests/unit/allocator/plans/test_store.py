from dataclasses import replace

import pytest

from pgmo.allocator.plans.directory import PlanDirectory
from pgmo.allocator.plans.plan_set import PlannedProfile
from pgmo.errors import FileError
from pgmo.packing.plan import Plan
from pgmo.packing.planner import plan as make_plan
from pgmo.profiler.profile import Profile


def planned(blocks: int) -> PlannedProfile:
    at = range(blocks)
    profile = Profile.from_columns(
        size=[64] * blocks, start=at, end=[one + 1 for one in at], ticks=blocks
    )
    return PlannedProfile(make_plan(profile), profile)


def save(plans, opening, folder, name):
    """Save plans as a program of one process does."""
    return PlanDirectory(folder, name, None).save(plans, opening)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_all_plans_in_one_file_and_each_profile_in_its_own(tmp_path):
    written = save([planned(3), planned(4), planned(5)], planned(9), tmp_path, "net")
    profiles = ["net.pgmoprof", "net-2.pgmoprof", "net-3.pgmoprof", "net-opening.pgmoprof"]
    assert [path.name for path in written] == [*profiles, "net.pgmoplan"]
    assert names(tmp_path) == sorted([*profiles, "net.pgmoplan"])
    loaded = Plan.load(tmp_path / "net.pgmoplan")
    assert [len(one) for one in (loaded, *loaded.others, loaded.opening)] == [3, 4, 5, 9]
    assert [len(Profile.load(tmp_path / name)) for name in profiles] == [3, 4, 5, 9]


def test_loaded_plans_have_no_profiles_and_leave_their_company_behind(tmp_path):
    """A plan from a file still refers to the file's other plans."""
    loaded = replace(planned(3).plan, others=(planned(4).plan,), opening=planned(5).plan)
    plans = [planned(6), PlannedProfile(loaded, None)]
    written = save(plans, PlannedProfile(loaded, None), tmp_path, "")
    assert [path.name for path in written] == ["pgmo.pgmoprof", "pgmo.pgmoplan"]
    found = Plan.load(tmp_path / "pgmo.pgmoplan")
    assert [len(one) for one in (found, *found.others, found.opening)] == [6, 3, 3]
    save([PlannedProfile(loaded, None)], None, tmp_path, "")
    assert Plan.load(tmp_path / "pgmo.pgmoplan").inner == ()


def test_a_folder_that_is_gone(tmp_path):
    with pytest.raises(FileError, match=r"net\.pgmoprof: cannot be written"):
        save([planned(3)], None, tmp_path / "gone", "net")
