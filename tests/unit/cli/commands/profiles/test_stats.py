from dataclasses import replace

import pytest

import pgmo
from pgmo.cli.main import main
from pgmo.profiler.profile import NEVER, Profile, ProfileMeta
from pgmo.profiler.tag import Tag
from tests.unit.report.loops import train


@pytest.fixture
def profile() -> Profile:
    return Profile.from_columns(
        size=[1000, 3000, 64, 500],
        start=[0, 1, 2, 3],
        end=[2, 5, NEVER, 4],
        ticks=4,
        tag=[0, 1, -1, 0],
        tags=(Tag("Net.conv", "aten.convolution", "forward"), Tag("Net", "aten.mul", "backward")),
        meta=ProfileMeta(framework="torch", framework_version="2.13", device="cpu", model="net"),
    )


def test_a_profile_as_json(profile, tmp_path, reported):
    path = tmp_path / "net.pgmoprof"
    profile.save(path)
    fields = reported("stats", path)
    assert fields["kind"] == "profile"
    assert fields["max_load"] == profile.max_load() == 4000
    counts = {key: fields[key] for key in ("blocks", "ticks", "wrapping", "persistent", "varying")}
    assert counts == {"blocks": 4, "ticks": 4, "wrapping": 1, "persistent": 1, "varying": 0}
    assert fields["persistent_bytes"] == 64
    assert fields["peak"]["modules"][0] == {"name": "Net", "size": 3000, "blocks": 1}
    assert fields["meta"]["model"] == "net"


def test_a_profile_in_words(profile, tmp_path, printed):
    path = tmp_path / "net.pgmoprof"
    profile.save(path)
    shown = printed("stats", path)
    for expected in ("net, torch 2.13, cpu", "3.91 KiB", "Net.conv", "backward", "75.0%"):
        assert expected in shown
    assert "NOT steady" not in shown


def test_the_trace_and_what_would_help(profile, tmp_path, printed, reported):
    path = tmp_path / "net.pgmoprof"
    replace(profile, trace=train(12, keep_losses_every=1)).save(path)
    shown = printed("stats", path)
    assert "trace       127 events, 49 requests, 12 iterations begun" in shown
    assert "hint        A number is kept as a tensor: 4 B" in shown
    fields = reported("stats", path)
    assert fields["trace"]["iterations"] == 12
    assert "A number is kept as a tensor" in [hint["title"] for hint in fields["hints"]]


def test_blocks_that_are_shared_between_streams(profile, tmp_path, capsys, printed, reported):
    path = tmp_path / "net.pgmoprof"
    profile.save(path)
    assert main(["stats", str(path)]) == 0
    assert "shared" not in capsys.readouterr().out
    replace(profile, shared=[False, True, True, False]).save(path)
    shown = printed("stats", path)
    assert "shared      1 blocks, 2.93 KiB, used on several streams, not planned" in shown
    assert "max load    1000 B; planned blocks request 1.46 KiB in all" in shown
    fields = reported("stats", path)
    assert (fields["shared"], fields["shared_bytes"], fields["persistent"]) == (1, 3000, 1)


def test_a_plan_as_json_and_in_words(profile, tmp_path, printed, reported):
    path = tmp_path / "net.pgmoplan"
    plan = pgmo.plan(profile)
    plan.save(path)
    fields = reported("stats", path)
    assert fields["kind"] == "plan"
    assert (fields["blocks"], fields["planned"]) == (4, 3)
    assert (fields["arena"], fields["max_load"]) == (plan.arena, plan.max_load)
    assert fields["gap"] == pytest.approx(plan.arena / plan.max_load - 1)
    shown = printed("stats", path)
    assert "3 of 4 planned" in shown
    assert plan.solver in shown


@pytest.mark.parametrize(
    ("others", "opening", "line"),
    [
        (0, False, None),
        (1, False, "and 1 other structure\n"),
        (0, True, "and the first iteration's plan\n"),
        (2, True, "and 2 other structures, and the first iteration's plan\n"),
    ],
)
def test_the_plans_that_come_along(profile, tmp_path, others, opening, line, printed, reported):
    path = tmp_path / "net.pgmoplan"
    plan = pgmo.plan(profile)
    replace(plan, others=(plan,) * others, opening=plan if opening else None).save(path)
    shown = printed("stats", path)
    if line is None:
        assert "\n            and" not in shown
    else:
        assert shown.splitlines(keepends=True)[1] == f"            {line}"
    fields = reported("stats", path)
    assert (fields["others"], fields["opening"]) == (others, opening)
