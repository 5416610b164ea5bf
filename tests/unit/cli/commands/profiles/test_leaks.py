import json

import pytest

from pgmo.cli.main import main
from pgmo.profiler.profile import Profile
from tests.unit.report.loops import train


@pytest.fixture
def saved(tmp_path):
    def save(name: str, **options) -> str:
        profile = Profile.from_columns(
            size=[8], start=[0], end=[1], ticks=1, circular=False, trace=train(**options)
        )
        profile.save(tmp_path / name)
        return str(tmp_path / name)

    return save


def test_a_leak_with_its_origin_and_how_long_memory_lasts(saved, capsys):
    path = saved("leaky.pgmoprof", iterations=12, keep_losses_every=1)
    assert main(["stats", "--leaks", path, "--memory", "1MiB"]) == 0
    said = capsys.readouterr()
    assert "4 B more in each iteration" in said.out
    assert "train.py:12 in step, aten.nll_loss (forward)" in said.out
    assert "1.00 MiB are full after about" in said.out
    assert said.err == f"Next: pgmo stats {path} --by file\n"


def test_check_is_an_exit_code(saved, capsys):
    leaky = saved("leaky.pgmoprof", iterations=12, keep_losses_every=1)
    clean = saved("clean.pgmoprof", iterations=12)
    assert main(["stats", "--leaks", leaky, "--check"]) == 3
    assert main(["stats", "--leaks", leaky, "--check", "--json"]) == 3
    assert main(["stats", "--leaks", clean, "--check"]) == 0
    assert capsys.readouterr().out.endswith(
        "leaks       none (12 iterations of the trace, the first and the last 2 not counted)\n"
    )


def test_json_has_growth_and_what_is_left(saved, capsys):
    path = saved("leaky.pgmoprof", iterations=12, keep_activations=True)
    assert main(["stats", "--leaks", path, "--json", "--memory", "100000"]) == 0
    fields = json.loads(capsys.readouterr().out)
    assert (fields["growth"], fields["judged"], fields["per"]) == (2048.0, True, "iteration")
    assert fields["found"][0]["tag"]["op"] == "aten.mm"
    assert fields["until_full"] == (100000 - fields["live"]) // 2048


def test_several_profiles(saved, capsys):
    paths = [
        saved(f"{count}.pgmoprof", iterations=count, keep_losses_every=1) for count in (5, 7, 9)
    ]
    assert main(["stats", "--leaks", *paths, "--json"]) == 0
    fields = json.loads(capsys.readouterr().out)
    assert (fields["per"], fields["growth"], len(fields["found"])) == ("profile", 8.0, 1)
    assert fields["files"] == paths


def test_a_size_that_is_none_is_refused(saved, capsys):
    assert main(["stats", "--leaks", saved("a.pgmoprof", iterations=5), "--memory", "lots"]) == 2
    assert "cannot read 'lots' as a size" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options", [["--check"], ["--memory", "1GiB"], ["other.pgmoprof"], ["--leaks", "--blocks"]]
)
def test_options_that_would_do_nothing_are_refused(saved, capsys, options):
    assert main(["stats", saved("a.pgmoprof", iterations=5), *options]) == 2
    assert "--leaks" in capsys.readouterr().err
