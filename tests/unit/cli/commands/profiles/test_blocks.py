import pytest

from pgmo.profiler.profile import NEVER, Profile
from pgmo.profiler.tag import Tag

TAGS = (
    Tag("Net.conv", "aten.convolution", "forward", "train.py:3 in step", ("train.py:3 in step",)),
    Tag("Net", "aten.mul", "backward"),
)


@pytest.fixture
def path(tmp_path) -> str:
    profile = Profile.from_columns(
        size=[1000, 3000, 64, 500],
        start=[0, 1, 2, 3],
        end=[2, 6, NEVER, 4],
        ticks=4,
        tag=[0, 1, -1, 0],
        tags=TAGS,
    )
    profile.save(tmp_path / "net.pgmoprof")
    return str(tmp_path / "net.pgmoprof")


def test_blocks_one_by_one_largest_first(path, reported):
    fields = reported("stats", "--blocks", path)
    assert [row["size"] for row in fields["rows"]] == [3000, 1000, 500, 64]
    assert (fields["blocks"], fields["size"], fields["tick"]) == (4, 4564, None)
    assert fields["rows"][3]["end"] is None
    assert fields["rows"][3]["origin"] is None
    assert fields["rows"][1]["origin"]["file"] == "train.py:3 in step"
    assert [row["row"] for row in reported("stats", "--blocks", path, "--top", "2")["rows"]] == [
        1,
        0,
    ]


def test_at_the_peak_sums_are_the_max_load(path, reported):
    fields = reported("stats", "--blocks", path, "--at-peak")
    assert (fields["tick"], fields["size"]) == (1, 7000)
    assert [(row["row"], row["copies"]) for row in fields["rows"]] == [(1, 2), (0, 1)]
    for by in ("module", "op", "phase", "file", "stream", "size"):
        grouped = reported("stats", "--blocks", path, "--at-peak", "--by", by)
        assert sum(row["size"] for row in grouped["rows"]) == 7000
        assert sum(row["blocks"] for row in grouped["rows"]) == 3


def test_a_cut_list_keeps_its_sum(path, reported):
    rows = reported("stats", "--blocks", path, "--by", "phase", "--top", "1")["rows"]
    assert rows == [
        {"name": "backward", "size": 3000, "blocks": 1},
        {"name": "(others)", "size": 1564, "blocks": 3},
    ]


def test_tables_in_words(path, printed, run):
    said = run("stats", "--blocks", path)
    assert "4 blocks, 4.46 KiB, in all" in said.out
    assert "train.py:3 in step, Net.conv, aten.convolution (forward)" in said.out
    assert "persistent" in said.out
    assert f"Next: pgmo stats {path} --at-peak --by module" in said.err
    assert "2.93 KiB x 2" in printed("stats", "--blocks", path, "--at-peak")
    shown = printed("stats", "--blocks", path, "--at-peak", "--by", "module")
    assert "3 blocks, 6.84 KiB, alive at tick 1, the peak" in shown
    assert "85.7%" in shown
