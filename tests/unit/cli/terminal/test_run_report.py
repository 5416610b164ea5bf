"""Tests of the report at the end of `pgmo run`."""

from dataclasses import replace

from pgmo.cli.terminal.run_report import _note_keepers
from pgmo.profiler.profile import Profile
from pgmo.runner.supervision import RunOptions, Supervision


def test_a_profile_that_names_another_ranks_device_stays_as_it_is(tmp_path):
    profile = Profile.from_columns(size=[64], start=[0], end=[1], ticks=1)
    profile = replace(profile, meta=replace(profile.meta, device="cuda:1"))
    path = tmp_path / "train.pgmoprof"
    profile.save(path)
    before = path.read_bytes()
    supervision = Supervision(RunOptions("train", who_keeps=True))
    supervision.saved = [path]
    _note_keepers(supervision)
    assert supervision.notes == []
    assert path.read_bytes() == before
