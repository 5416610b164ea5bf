"""Tests that no command writes a file that it reads, under any of its names."""

import gzip
import os

import pytest

from pgmo.cli.main import main
from pgmo.cli.targets import check_targets
from pgmo.errors import FileError, OptionError
from pgmo.profiler.profile import Profile

TABLE = "id,lower,upper,size\na,0,2,64\n"

# For each case, the file that is read, a name for it that is valid as an output, and the command.
WRITERS = {
    "export a profile": ("net.pgmoprof", "net.csv", ["export", "net.pgmoprof", "--to", "csv"]),
    "export a plan": ("net.pgmoplan", "net.csv", ["export", "net.pgmoplan", "--to", "csv"]),
    "export a recording": (
        "table.csv",
        "table.pgmoprof",
        ["export", "table.csv", "--to", "profile"],
    ),
    "plan a profile": ("net.pgmoprof", "net.pgmoplan2.pgmoplan", ["plan", "net.pgmoprof"]),
    "plan a table": ("table.csv", "other.csv", ["plan", "table.csv"]),
    "report": ("net.pgmoprof", "net.html", ["report", "net.pgmoprof"]),
    "report with a plan": (
        "net.pgmoplan",
        "net.html",
        ["report", "net.pgmoprof", "--plan", "net.pgmoplan"],
    ),
}


@pytest.mark.parametrize("link", [os.symlink, os.link], ids=["symbolic", "hard"])
@pytest.mark.parametrize("case", WRITERS)
def test_an_input_survives_under_another_name(case, link, folder, refused):
    source, alias, command = WRITERS[case]
    link(source, alias)
    before = (folder / source).read_bytes()
    assert "this would replace the input" in refused(*command, "-o", alias, "--force", code=2)
    assert (folder / source).read_bytes() == before
    assert (folder / alias).read_bytes() == before


@pytest.mark.parametrize("case", WRITERS)
def test_an_existing_output_is_kept_unless_forced(case, folder, refused):
    _, target, command = WRITERS[case]
    (folder / target).write_text("mine")
    assert f"{target} exists already; pass --force" in refused(*command, "-o", target)
    assert (folder / target).read_text() == "mine"
    assert main([*command, "-o", target, "--force"]) == 0
    assert (folder / target).read_bytes() != b"mine"


@pytest.mark.parametrize("name", ["table.csv", "./table.csv", "folder/../table.csv"])
def test_an_input_survives_under_its_own_name(name, folder):
    before = (folder / "table.csv").read_text()
    (folder / "folder").mkdir()
    assert main(["plan", "table.csv", "-o", name, "-f"]) == 2
    assert main(["export", "net.pgmoprof", "--to", "csv", "-o", "net.pgmoprof", "-f"]) == 2
    assert main(["export", "table.csv", "--to", "profile", "-o", name, "-f"]) == 2
    assert (folder / "table.csv").read_text() == before
    Profile.load("net.pgmoprof")


@pytest.mark.parametrize("json", ["script.py", "./script.py", "alias.json"])
def test_a_script_and_its_plan_survive(json, folder, capsys):
    os.symlink("script.py", "alias.json")
    assert main(["run", "--json", json, "-f", "script.py"]) == 2
    assert (folder / "script.py").read_text() == "print('ran')\n"
    os.link("net.pgmoplan", "plan.json")
    assert main(["run", "--plan", "net.pgmoplan", "--json", "plan.json", "-f", "script.py"]) == 2
    assert capsys.readouterr().out == ""


def test_a_factory_survives_its_profile(folder, capsys):
    pytest.importorskip("torch")
    before = (folder / "factory.py").read_text()
    os.symlink("factory.py", "step.pgmoprof")
    command = ["recompute", "factory.py:make", "-o", "step.pgmoprof"]
    assert main([*command, "-f"]) == 2
    assert (folder / "factory.py").read_text() == before
    os.unlink("step.pgmoprof")
    (folder / "step.pgmoprof").write_text("mine")
    assert main(command) == 1
    assert "pass --force" in capsys.readouterr().err
    assert main([*command, "-f"]) == 0
    Profile.load("step.pgmoprof")


@pytest.mark.parametrize("suffix", [".pgmoprof", ".pgmoplan"])
@pytest.mark.parametrize(
    "command",
    [
        ["export", "net.pgmoprof", "--to", "csv", "-o"],
        ["report", "net.pgmoprof", "-o"],
        ["check", "net.pgmoprof", "--against", "net.pgmoprof", "--markdown"],
        ["run", "script.py", "--json"],
    ],
    ids=lambda command: command[0],
)
def test_nothing_else_is_written_as_a_profile_or_a_plan(command, suffix, folder, capsys):
    head, *rest = command
    assert main([head, rest[-1], f"new{suffix}", *rest[:-1]]) == 2
    assert f"cannot have the suffix {suffix}; use" in capsys.readouterr().err
    assert not (folder / f"new{suffix}").exists()


@pytest.mark.parametrize("name", ["q.txt", "q", "q.PGMOPROF", "q.pgmoplan"])
def test_an_imported_profile_can_be_read_again(name, folder, capsys):
    assert main(["export", "table.csv", "--to", "profile", "-o", name]) == 2
    assert "the suffix is not .pgmoprof" in capsys.readouterr().err
    assert not (folder / name).exists()
    assert main(["export", "table.csv", "--to", "profile", "-o", "q.pgmoprof"]) == 0
    assert main(["stats", "q.pgmoprof"]) == 0


def test_targets_that_cannot_be_files(folder):
    check_targets(["new.csv"], force=False, sources=["table.csv"])
    with pytest.raises(FileError, match="is a folder; name a file in it"):
        check_targets([folder], force=True)
    with pytest.raises(FileError, match="is not a regular file"):
        check_targets(["/dev/null"], force=True)
    with pytest.raises(FileError, match="there is no folder"):
        check_targets(["no/such.csv"], force=False)
    with pytest.raises(OptionError, match="another output is the same file"):
        check_targets(["new.csv", "./new.csv"], force=True)


@pytest.mark.parametrize("name", ["", ".", "/", "./"])
@pytest.mark.parametrize(
    "command",
    [
        ["report"],
        ["export", "--to", "csv"],
        ["export", "--to", "profile"],
        ["plan"],
        ["stats"],
    ],
    ids=" ".join,
)
def test_paths_that_name_no_file_are_reported(command, name, folder, run):
    said = run(*command, name, code=1).err
    assert said.startswith(f"pgmo {command[0]}: ")
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "profile"),
    [("a.pickle.gz", "a"), ("a.gz", "a"), ("a.b.csv", "a.b"), (".gz", ".gz"), ("a", "a")],
)
def test_a_profile_is_named_by_what_was_imported(name, profile, folder):
    table = gzip.compress(TABLE.encode()) if name.endswith(".gz") else TABLE.encode()
    (folder / "in").mkdir()
    (folder / "in" / name).write_bytes(table)
    assert main(["export", f"in/{name}", "--to", "profile"]) == 0
    assert (folder / "in" / f"{profile}.pgmoprof").is_file()
