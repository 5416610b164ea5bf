import argparse
import json
from dataclasses import asdict, replace

import pytest

from pgmo.cli.commands.profiles.plan import add_arguments
from pgmo.cli.main import main
from pgmo.packing import planner
from pgmo.packing.plan import Plan
from pgmo.packing.planner import plan
from pgmo.packing.planning_options import PlanningOptions
from pgmo.profiler.profile import Profile


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "net.pgmoprof"
    Profile.from_columns(size=[1000, 3000], start=[0, 1], end=[2, 3], ticks=2).save(path)
    return path


def test_a_plan_is_written_next_to_its_profile(source, capsys):
    assert main(["plan", str(source)]) == 0
    target = source.with_suffix(".pgmoplan")
    made = Plan.load(target)
    assert made.fingerprint == Profile.load(source).fingerprint
    assert made.arena >= made.max_load >= 4000
    captured = capsys.readouterr()
    assert "arena" in captured.out
    assert captured.err == f"Wrote {target}\nNext: pgmo report {source}\n"


def test_a_plan_elsewhere_is_named_in_the_next_command(source, tmp_path, capsys):
    target = tmp_path / "other.pgmoplan"
    assert main(["plan", str(source), "-o", str(target)]) == 0
    assert capsys.readouterr().err.endswith(f"Next: pgmo report {source} --plan {target}\n")


def test_within_a_budget(source, capsys, reported):
    assert main(["plan", str(source), "--budget", "3 KiB"]) == 0  # the smaller block leaves
    made = Plan.load(source.with_suffix(".pgmoplan"))
    assert (made.resident, made.spilled) == (3008, 1024)
    spilled = "spilled     1.00 KiB of the arena, to unified memory on the host; "
    assert spilled + "2.94 KiB stay on the device" in capsys.readouterr().out.splitlines()
    assert reported("stats", source.with_suffix(".pgmoplan"))["spilled"] == made.spilled


def failure(arguments, capsys, code=1):
    """Return the one line on stderr with which `pgmo plan` fails."""
    assert main(["plan", *map(str, arguments)]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("pgmo plan: ")
    return captured.err


def test_a_profile_that_is_a_folder_or_not_a_profile(tmp_path, capsys):
    folder, text = tmp_path / "folder.pgmoprof", tmp_path / "text.pgmoprof"
    folder.mkdir()
    text.write_text("no archive")
    assert "is not a regular file; check the path" in failure([folder], capsys)
    assert "does not begin like a pgmo file" in failure([text], capsys)
    # The error is the same if an old plan exists.
    folder.with_suffix(".pgmoplan").touch()
    assert "is not a regular file" in failure([folder], capsys)


def test_an_output_that_cannot_be_written(source, tmp_path, capsys):
    assert "the suffix is not .pgmoplan" in failure([source, "-o", tmp_path / "x.txt"], capsys, 2)
    assert "`pgmo export --to csv` converts" in failure(
        [source, "-o", tmp_path / "x.csv"], capsys, 2
    )
    for force in ([], ["-f"]):
        assert "too long" in failure(
            [source, "-o", tmp_path / ("n" * 300 + ".pgmoplan"), *force], capsys
        )


def test_a_profile_that_is_named_as_a_plan_is_not_replaced(source, tmp_path, capsys):
    misnamed = source.rename(tmp_path / "misnamed.pgmoplan")
    assert f"{misnamed} has the suffix of a plan" in failure([misnamed, "-f"], capsys, 1)
    assert len(Profile.load(misnamed)) == 2


def test_alignment_of_a_profile(source):
    assert main(["plan", str(source), "--alignment", "512"]) == 0
    assert Plan.load(source.with_suffix(".pgmoplan")).alignment == 512


@pytest.fixture
def blocks(tmp_path):
    path = tmp_path / "blocks.csv"
    path.write_text("id,lower,upper,size\na,0,2,64\nb,1,3,32\nc,2,3,64\n")
    return path


def test_blocks_are_packed_and_nothing_is_written_unasked(blocks, run):
    captured = run("plan", blocks)
    assert captured.out.splitlines()[:3] == [
        "blocks      3",
        "max load    96 B, no arena is smaller",
        "arena       96 B, 0.00% above the max load; optimal for fixed offsets",
    ]
    assert captured.err == f"Next: pgmo plan {blocks} -o {blocks.with_suffix('.plan.csv')}\n"
    assert list(blocks.parent.iterdir()) == [blocks]


def test_figures_of_blocks(blocks, reported):
    fields = reported("plan", blocks)
    assert {name: fields[name] for name in ("file", "blocks", "max_load", "bound", "arena")} == {
        "file": None,
        "blocks": 3,
        "max_load": 96,
        "bound": 96,
        "arena": 96,
    }
    assert (fields["gap"], fields["optimal"], fields["solver"]) == (0.0, True, "best-fit")
    assert fields["seconds"] >= fields["trace"][-1]["seconds"] >= 0
    assert set(fields["trace"][-1]) == {"seconds", "arena", "bound", "solver"}


def test_blocks_with_offsets(blocks, tmp_path, capsys, run):
    target = tmp_path / "out.csv"
    assert run("plan", blocks, "-o", target).err == f"Wrote {target}\n"
    assert target.read_text() == (
        "id,lower,upper,size,offset\na,0,2,64,0\nb,1,3,32,64\nc,2,3,64,0\n"
    )
    assert "exists already" in failure([blocks, "-o", target], capsys)
    odd = failure([blocks, "-o", target.with_suffix(".txt")], capsys, 2)
    assert "neither .pgmoplan nor .csv" in odd


def test_blocks_at_distant_ticks_as_a_plan(tmp_path):
    source, target = tmp_path / "blocks.csv", tmp_path / "out.pgmoplan"
    source.write_text(f"id,lower,upper,size\n0,0,{2**60},64\n1,{2**59},{2**61},32\n")
    assert main(["plan", str(source), "-o", str(target)]) == 0
    assert Plan.load(target).arena == 96


def test_options_reach_the_solver(blocks, capsys):
    arguments = ["--solver", "best-fit-area", "--threads", "1", "--seed", "7", "--json"]
    assert main(["plan", str(blocks), *arguments, "--time-limit", "1", "--effort", "best"]) == 0
    assert json.loads(capsys.readouterr().out)["solver"] == "best-fit-area"


def test_a_bad_row_is_named(blocks, capsys):
    blocks.write_text("id,lower,upper,size\n0,0,5,64\n1,5,5,64\n")
    assert failure([blocks], capsys) == (
        f"pgmo plan: {blocks}, line 3: upper is 5, not above lower, which is 5; correct this line\n"
    )


def test_a_log_of_cupy_may_be_named_csv(tmp_path, reported):
    log = tmp_path / "log.csv"
    block = '"device_id":0,"mem_size":512,"mem_ptr":1024,"pmem_id":"0x7"}'
    hooks = ('{"hook":"alloc",', '{"hook":"malloc","size":24,', '{"hook":"free",')
    log.write_text("".join(f"{hook}{block}\n" for hook in hooks))
    fields = reported("plan", log)
    assert (fields["file"], fields["blocks"]) == (str(log.with_suffix(".pgmoplan")), 1)


def test_ctrl_c_leaves_the_best_so_far(blocks, monkeypatch, run):
    said = "interrupted: this is the best plan found so far\n"
    for bound, reported in ((1, True), (96, False)):  # a proved optimum needs no such note

        def interrupted(what, bound=bound, **options):
            return replace(plan(what, **options), interrupted=True, bound=bound)

        monkeypatch.setattr(planner, "plan", interrupted)
        captured = run("plan", blocks, "--json")
        assert json.loads(captured.out)["interrupted"] is True
        assert captured.err.startswith(said) is reported


def test_the_defaults_are_those_of_planning():
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    given = vars(parser.parse_args(["a.pgmoprof"]))
    defaults = asdict(PlanningOptions())
    del defaults["sparse_from"]  # sessions set it; the command has no option for it
    assert {name: given[name] for name in defaults} == defaults
