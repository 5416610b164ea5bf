import json

import pytest

from pgmo.cli.main import main
from pgmo.errors import FileError
from pgmo.report.ranks import find_differences, read_ranks

MIB = 1 << 20
EQUAL = {
    "pgmo/peak_live": 100 * MIB,
    "pgmo/reserved": 120 * MIB,
    "pgmo/stuck": 20 * MIB,
    "pgmo/retries": 0,
    "pgmo/from_plan": 1.0,
    "pgmo/growth": 0.0,
}


def result(folder, rank, **changed):
    own = EQUAL | {f"pgmo/{name}": value for name, value in changed.items()}
    fields = {"sessions": [{"device": f"cuda:{rank}", "metrics": own}]}
    (folder / f"run-rank{rank}.json").write_text(json.dumps(fields))


def log(folder, rank, *peaks):
    lines = [json.dumps(EQUAL | {"step": 1, "pgmo/peak_live": peak}) for peak in peaks]
    (folder / f"pgmo-{rank}.jsonl").write_text("\n".join(lines) + "\n")


def test_equal_ranks_do_not_differ(tmp_path):
    for rank in (10, 2, 0):
        result(tmp_path, rank)
    ranks = read_ranks(tmp_path)
    assert [one.rank for one in ranks] == [0, 2, 10]
    assert ranks[0].figures["reserved"] == 120 * MIB
    assert find_differences(ranks) == []


def test_the_rank_that_differs_is_named(tmp_path):
    for rank in range(4):
        result(tmp_path, rank, peak_live=(100 + rank) * MIB)
    result(tmp_path, 2, peak_live=150 * MIB, retries=3, from_plan=0.5, growth=2 * MIB)
    found = find_differences(read_ranks(tmp_path))
    assert [(one.rank, one.figure) for one in found] == [
        (2, "peak_live"),
        (2, "growth"),
        (2, "retries"),
        (2, "from_plan"),
    ]
    assert str(found[0]) == (
        "rank 2: peak live is 150 MiB; the median of the other ranks is 101 MiB"
    )


@pytest.mark.parametrize("larger", [0, 1])
def test_of_two_ranks_the_one_with_more_memory_differs(tmp_path, larger):
    for rank in range(2):
        result(tmp_path, rank, reserved=(200 if rank == larger else 120) * MIB)
    (one,) = find_differences(read_ranks(tmp_path))
    assert (one.rank, one.figure) == (larger, "reserved")


def test_small_differences_are_none(tmp_path):
    for rank in range(3):
        result(tmp_path, rank, peak_live=MIB + rank * MIB // 4, growth=rank * 1000)
    assert find_differences(read_ranks(tmp_path)) == []


def test_the_last_line_of_a_log_counts(tmp_path):
    for rank in range(3):
        log(tmp_path, rank, 500 * MIB, (100 + 100 * (rank == 1)) * MIB)
    (one,) = find_differences(read_ranks(tmp_path))
    assert (one.rank, one.value) == (1, 200 * MIB)


def test_one_rank_alone_has_no_others(tmp_path):
    result(tmp_path, 0)
    assert find_differences(read_ranks(tmp_path)) == []


@pytest.mark.parametrize(
    "text", ["[]", "{}", '{"sessions": [{}]}', '{"sessions": [{"metrics": {"pgmo/growth": 1}}]}']
)
def test_files_without_figures_are_passed_over(tmp_path, text):
    (tmp_path / "run-rank0.json").write_text(text)
    with pytest.raises(FileError, match="has no figures of ranks"):
        read_ranks(tmp_path)


def test_a_file_that_is_no_json_is_an_error(tmp_path):
    (tmp_path / "run-rank0.json").write_text("{")
    with pytest.raises(FileError, match=r"run-rank0\.json has no valid JSON"):
        read_ranks(tmp_path)


def test_values_that_are_no_numbers(tmp_path):
    result(tmp_path, 0, growth="much")
    result(tmp_path, 1, growth=float("nan"))
    with pytest.raises(FileError):
        read_ranks(tmp_path)


def test_the_command_shows_a_row_for_each_rank(tmp_path, capsys):
    for rank in range(3):
        result(tmp_path, rank, reserved=(120 + 40 * (rank == 1)) * MIB)
    assert main(["stats", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("1 *" in line and "160 MiB" in line for line in lines)
    assert lines[-1].startswith("* rank 1: reserved is 160 MiB; the median of the other ranks is")
    assert main(["stats", "--json", str(tmp_path)]) == 0
    fields = json.loads(capsys.readouterr().out)
    assert [one["rank"] for one in fields["ranks"]] == [0, 1, 2]
    (difference,) = fields["differences"]
    assert difference == {
        "rank": 1,
        "figure": "reserved",
        "value": 160 * MIB,
        "others": 120 * MIB,
    }


def test_options_for_files_are_refused(tmp_path, capsys):
    assert main(["stats", "--leaks", str(tmp_path)]) == 2
    assert "is a directory, whose ranks are compared" in capsys.readouterr().err
