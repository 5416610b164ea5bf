import json

import pytest

from pgmo.cli.terminal.output import console, print_json, print_wrote, refuse_to_overwrite
from pgmo.errors import FileError


def test_an_existing_file_is_not_overwritten_unasked(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    old.touch()
    refuse_to_overwrite([new], force=False)
    with pytest.raises(FileError, match=r"old exists already; pass --force"):
        refuse_to_overwrite([new, old], force=False)
    refuse_to_overwrite([new, old], force=True)


def test_the_message_counts_the_others(tmp_path):
    for name in "abc":
        (tmp_path / name).touch()
    with pytest.raises(FileError, match=r"a exists already \(and 2 more\)"):
        refuse_to_overwrite([tmp_path / name for name in "abc"], force=False)


def test_json_is_all_there_is_on_stdout(capsys):
    print_json([{"a": 1.5, "b": None}])
    print_wrote(["x.pgmoplan"], "pgmo stats x.pgmoplan")
    captured = capsys.readouterr()
    assert json.loads(captured.out) == [{"a": 1.5, "b": None}]
    assert captured.err == "Wrote x.pgmoplan\nNext: pgmo stats x.pgmoplan\n"


def test_json_refuses_what_is_no_json():
    with pytest.raises(ValueError, match="JSON"):
        print_json(float("nan"))


def test_a_pipe_gets_no_colours_and_room_for_tables(capsys):
    out = console()
    out.print("[red]" + "x" * 110)
    assert capsys.readouterr().out == "x" * 110 + "\n"
