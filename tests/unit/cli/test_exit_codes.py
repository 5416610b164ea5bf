"""Tests that each wrong value of an option is exit code 2, and that --json holds for errors."""

import argparse
import json

import pytest

from pgmo import removed
from pgmo.cli.catalog import COMMANDS
from pgmo.cli.main import main
from pgmo.cli.parser import build_parser, parsers_of

SIZES = ("", "-1", "1e3", "lots", "nan")
POSITIVE = ("", "-1", "0", "nan", "many")
COUNTS = ("", "-1", "0", "1.5", "many")
PROFILE, PLAN, FACTORY = "net.pgmoprof", "net.pgmoplan", "factory.py:make"
HUGE = str(2**70)

# For each command, its other arguments, and for each option, values that the command refuses.
WRONG = {
    "run": (
        ["script.py"],
        {
            "--device": ("", "tpu", "cuda:-1", "cuda:x", "cpu:0"),
            "--memory": ("", "host"),
            "--budget": SIZES,
            "--limit": (*SIZES, "0"),
            "--priority": ("", "x", "1"),  # without --share
            "--step-on": ("", "predict", "app:", ":predict", "app:predict()", "no.module:predict"),
            "--json": ("script.py", "x.pgmoprof", "x.pgmoplan"),
        },
    ),
    "fit": (
        ["script.py"],
        {
            "--card": ("", "RTX 9999", "-1"),
            "--vary": ("", "--batch-size"),
            "--value": ("", "x", "3"),  # without --vary
            "--learn": ("", "x", "0", "2,x"),
            "--effective-batch": ("", "x", "256"),  # without --vary
            "--also": ("", "luck", "checkpoint"),
            "--samples": POSITIVE,
            "--steps": POSITIVE,
            "--measured": ("x", "x@L4", "1@RTX 9999"),
            "--report": ("script.py", "x.pgmoprof", "x.pgmoplan"),
        },
    ),
    "rehearse": (
        ["script.py"],
        {
            "--card": ("", "RTX 9999", "-1"),
            "--world": COUNTS,
            "--rank": ("", "-1", "x", "1"),
            "--way": ("", "luck"),
            "--iterations": COUNTS,
        },
    ),
    "plan": (
        [PROFILE, "-f"],
        {
            "--output": ("q.txt", "q", "q.PGMOPLAN", PROFILE),
            "--solver": ("", "luck"),
            "--time-limit": ("", "-1", "nan", "-inf", "soon"),
            "--effort": ("", "luck"),
            "--threads": (*COUNTS, HUGE),
            "--seed": ("", "-1", "x", HUGE),
            "--alignment": (*COUNTS, HUGE),
            "--budget": SIZES,
        },
    ),
    "recompute": (
        [FACTORY],
        {
            "--budget": (*SIZES, "0", "120%"),
            "--offload": ("", "usb", "0", "-1", "nan", "inf"),
            "--points": ("", "1", "-1", "x", HUGE),
            "--output": ("q.txt", "q"),
        },
    ),
    "stats": (
        [PROFILE],
        {"--top": COUNTS, "--by": ("", "color"), "--every": COUNTS},
    ),
    "compare": ([PROFILE], {"--top": COUNTS}),
    "report": ([PROFILE, "-f"], {"--output": (PROFILE, "q.pgmoplan")}),
    "export": (
        [PROFILE, "-f"],
        {
            "--to": ("", "xml"),
            "--output": ("--to=csv", PROFILE, "q.pgmoplan"),
            "--device": ("--to=profile", "-2", "x", HUGE),
            "--iteration": ("--to=profile", "x", "y"),
        },
    ),
    "check": (
        [PLAN],
        {
            "--tolerance": ("", "5", "lots", "1%"),  # without --against
            "--markdown": ("x.md",),
            "--against": ("",),
        },
    ),
    "share": (
        [],
        {
            "--deadline": ("", "x", "0", "-1", "nan", "inf"),
            "--patience": ("", "x", "0", "-1", "nan", "inf"),
            "--linger": ("", "x", "0", "-1", "nan", "inf"),
            "--lanes": COUNTS,
            "--card-bytes": SIZES,
            "--priority": ("", "x", "9", "-9", HUGE),
        },
    ),
    "doctor": ([], {"--clear": ("", "everything")}),
}
# Options that accept any text. A file or folder that does not exist is exit code 1.
ANY = {
    "run": {"--save", "--plan", "--vary", "--accumulate"},
    "fit": {"--python", "--environment"},
    "rehearse": {"--save", "--plan", "--python"},
    "report": {"--plan", "--title"},
    "share": {"--socket", "--log"},
}


def cases():
    for command, (rest, options) in WRONG.items():
        for option, values in options.items():
            also = [value for value in values if value.startswith(("--to=", "--leaks"))]
            for value in values:
                if value not in also:
                    yield [command, *rest, *also, f"{option}={value}"]


def words(value):
    return " ".join(value) if isinstance(value, list) else str(value)


def code_of(arguments):
    try:
        return main(arguments)
    except SystemExit as ended:
        return ended.code


@pytest.mark.parametrize("arguments", list(cases()), ids=" ".join)
def test_a_wrong_value_is_2_and_changes_no_file(arguments, folder, capsys):
    if arguments[0] == "recompute":
        pytest.importorskip("torch")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    if arguments[0] in ("run", "fit"):  # words behind the script are its arguments
        arguments = [arguments[0], *arguments[2:], arguments[1]]
    if arguments[0] == "rehearse":
        arguments = ["rehearse", "--card=16GiB", *arguments[2:], arguments[1]]
    assert code_of(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines()[-1].startswith(f"pgmo {arguments[0]}: ")
    after = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert after == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["doctor", "--clear", "contexts", "--fix"], "cannot be combined with --fix"),
        (["stats", PLAN, "--blocks"], "need a profile"),
        (["export", "table.csv", "--to", "profile", "--device", "1"], "blocks without devices"),
        (["share", "--status", "--linger", "1"], "leave out the command, --log and --linger"),
        (["share", "--json", "--", "true"], "--json is used only with --status"),
        (["run", "--memory", "managed", "--device", "cpu", "script.py"], "needs a CUDA device"),
        (["fit"], "no script is named"),
    ],
    ids=words,
)
def test_options_that_exclude_each_other_are_2(arguments, message, folder, capsys):
    assert code_of(arguments) == 2
    assert message in capsys.readouterr().err
    assert not (folder / "table.pgmoprof").exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_with_a_value_is_in_the_table(command):
    parser = parsers_of(build_parser(fill=True))[command]
    options = {
        action.option_strings[-1]
        for action in parser._actions
        if action.option_strings and action.nargs != 0
    }
    assert options == WRONG[command][1].keys() | ANY.get(command, set())


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["stats", "none.pgmoprof", "--json"], 1),
        (["stats", PROFILE, "--json", "--top", "0"], 2),
        (["stats", PROFILE, "--json", "--top", "many"], 2),
        (["stats", PROFILE, "--json", "--tpo", "1"], 2),
        (["stats", "--json"], 2),
        (["stat", PROFILE, "--json"], 2),
        (["export", PROFILE, "--json", "--to", "csv", "-o", "-"], 2),
        (["stats", "none.csv", "--json"], 1),
        (["run", "--json", "-", "none.py"], 1),
        (["run", "--json", "-", "--device", "tpu", "script.py"], 2),
        (["run", "--json", "-", "--quite", "script.py"], 2),
    ],
    ids=words,
)
def test_an_error_with_json_is_one_object_on_stdout_and_the_message_on_stderr(
    arguments, code, folder, capsys
):
    assert code_of(arguments) == code
    said = capsys.readouterr()
    error = json.loads(said.out)["error"]
    assert error["exit_code"] == code
    assert error["command"] == (arguments[0] if arguments[0] in COMMANDS else None)
    assert error["message"] in said.err
    assert error["kind"] == ("OptionError" if code == 2 else "FileError")


def test_every_command_with_json_has_errors_as_json(folder, capsys):
    for name, parser in parsers_of(build_parser(fill=True)).items():
        if not any("--json" in action.option_strings for action in parser._actions):
            continue
        with pytest.raises(SystemExit):
            main([name, "--json", *(["-"] if name == "run" else []), "--no-such-option"])
        assert json.loads(capsys.readouterr().out)["error"]["command"] == name


def test_the_file_of_run_is_for_results_alone(folder, capsys):
    assert main(["run", "--json", "run.json", "none.py"]) == 1
    assert capsys.readouterr().out == ""
    assert not (folder / "run.json").exists()


def test_an_interrupt_with_json(folder, monkeypatch, capsys):
    def interrupted(arguments: argparse.Namespace):
        raise KeyboardInterrupt

    monkeypatch.setattr("pgmo.cli.commands.profiles.stats.run", interrupted)
    assert main(["stats", PROFILE, "--json"]) == 130
    said = capsys.readouterr()
    assert json.loads(said.out)["error"]["kind"] == "KeyboardInterrupt"
    assert said.err == "interrupted\n"


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["stat", "x"], "did you mean 'stats'?"),
        (["exprot"], "did you mean 'export'?"),
        (["reco"], "did you mean 'recompute'?"),
        (["stats", "x", "--tpo", "3"], "did you mean '--top' for '--tpo'?"),
        (["export", "x", "--too", "csv"], "did you mean '--to' for '--too'?"),
        (["plan", "x", "--ouput=y"], "did you mean '--output' for '--ouput'?"),
        (["stats", "x", "--by", "modul"], "did you mean 'module'?"),
        (["run", "--quite", "x.py"], "did you mean '--quiet' for '--quite'?"),
    ],
    ids=words,
)
def test_misspelled_words_get_a_suggestion(arguments, meant, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert meant in said
    assert said.startswith(f"usage: pgmo {arguments[0] if arguments[0] in COMMANDS else '['}")


@pytest.mark.parametrize(
    ("word", "instead"), [*removed.COMMANDS.items(), *removed.MAIN_OPTIONS.items()]
)
def test_a_command_or_option_of_pgmo_that_is_gone_says_what_to_use(word, instead, capsys):
    assert code_of([word, "x"]) == 2
    assert f"`pgmo {word}` was removed: {instead}" in capsys.readouterr().err


@pytest.mark.parametrize(("command", "option"), removed.COMMAND_OPTIONS)
def test_an_option_that_is_gone_says_what_to_use(command, option, folder, capsys):
    needed = ["--to", "csv"] if command == "export" else []
    assert code_of([command, f"{option}=3", *needed, *WRONG[command][0]]) == 2
    instead = removed.COMMAND_OPTIONS[command, option]
    assert f"`pgmo {command} {option}` was removed: {instead}" in capsys.readouterr().err


def test_nothing_is_guessed_from_afar_or_from_a_scripts_options(capsys):
    for arguments in (["xyzzy"], ["stats", "x", "--xyzzy"], ["run", "none.py", "--quite"]):
        code_of(arguments)
        assert "did you mean" not in capsys.readouterr().err
