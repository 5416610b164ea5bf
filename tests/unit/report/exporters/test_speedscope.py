"""Flame graphs for speedscope."""

import io
import json

from hypothesis import given, settings

from pgmo.cli.main import main
from pgmo.packing.planner import plan
from pgmo.profiler.profile import Profile
from pgmo.profiler.tag import Tag
from pgmo.report.exporters.speedscope import SCHEMA, write_speedscope
from pgmo.report.findings.attribution import find_peak
from tests.unit.profiler.examples import profiles
from tests.unit.report.profiles import small_profile


def document(profile):
    out = io.StringIO()
    write_speedscope(profile, out)
    return json.loads(out.getvalue())


def paths(found, number=0):
    names = [frame["name"] for frame in found["shared"]["frames"]]
    one = found["profiles"][number]
    return {
        tuple(names[frame] for frame in sample): weight
        for sample, weight in zip(one["samples"], one["weights"], strict=True)
    }


@settings(max_examples=40, deadline=None)
@given(profiles())
def test_weights_add_up_to_the_peak(profile):
    found = document(profile)
    assert found["$schema"] == SCHEMA
    for one in found["profiles"]:
        assert one["type"] == "sampled"
        assert one["unit"] == "bytes"
        assert sum(one["weights"]) == one["endValue"] == find_peak(profile).size
        assert len(one["samples"]) == len(one["weights"])
        frames = [frame for sample in one["samples"] for frame in sample]
        assert all(0 <= frame < len(found["shared"]["frames"]) for frame in frames)


def test_stacks_begin_with_the_outermost_call():
    stack = ("net.py:7 in forward", "train.py:3 in step")
    tags = (Tag("Net.a", "aten.mm", "forward", stack=stack), Tag("Net", "aten.mul", "forward"))
    profile = Profile.from_columns(
        size=[64, 8], start=[0, 1], end=[2, 2], ticks=2, tag=[0, 1], tags=tags
    )
    found = document(profile)
    assert paths(found) == {
        ("train.py:3 in step", "net.py:7 in forward", "aten.mm"): 64,
        ("forward, no stack", "aten.mul"): 8,
    }
    assert paths(found, 1) == {("Net", "a", "aten.mm"): 64, ("Net", "aten.mul"): 8}


def test_the_command_writes_it_of_profiles_alone(tmp_path, capsys):
    path, made = tmp_path / "small.pgmoprof", tmp_path / "small.pgmoplan"
    small_profile().save(path)
    plan(small_profile()).save(made)
    assert main(["export", str(path), "--to", "speedscope"]) == 0
    assert json.loads((tmp_path / "small.speedscope.json").read_text())["profiles"]
    assert "speedscope.app" in capsys.readouterr().err
    assert main(["export", str(made), "--to", "speedscope", "-f"]) != 0
    assert "knows no origins" in capsys.readouterr().err
