import pytest

from pgmo.world import of_rank, rank


@pytest.mark.parametrize(
    ("environment", "own"),
    [
        ({}, None),
        ({"RANK": "0", "WORLD_SIZE": "1"}, None),
        ({"RANK": "3", "WORLD_SIZE": "4"}, 3),
        ({"WORLD_SIZE": "4"}, None),
        ({"RANK": "x", "WORLD_SIZE": "4"}, None),
    ],
)
def test_launchers_say_it_in_the_environment(monkeypatch, environment, own):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert rank() == own
    if own is not None:
        assert of_rank("a/run.json") == "a/run-rank3.json"
        assert of_rank("train") == "train-rank3"
    else:
        assert of_rank("a/run.json") == "a/run.json"
