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


def test_a_leak_with_its_origin(saved, run):
    path = saved("leaky.pgmoprof", iterations=12, keep_losses_every=1)
    said = run("stats", "--leaks", path)
    assert "4 B per iteration" in said.out
    assert "train.py:12 in step, aten.nll_loss (forward)" in said.out
    assert said.err == f"Next: pgmo stats {path} --by file\n"


def test_check_is_an_exit_code(saved, capsys):
    leaky = saved("leaky.pgmoprof", iterations=12, keep_losses_every=1)
    clean = saved("clean.pgmoprof", iterations=12)
    assert main(["stats", "--leaks", leaky, "--check"]) == 3
    assert main(["stats", "--leaks", leaky, "--check", "--json"]) == 3
    assert main(["stats", "--leaks", clean, "--check"]) == 0
    assert capsys.readouterr().out.endswith(
        "leaks       none (12 iterations of the trace, without the first and the last 2)\n"
    )


def test_json_has_growth_and_what_is_in_use(saved, reported):
    path = saved("leaky.pgmoprof", iterations=12, keep_activations=True)
    fields = reported("stats", "--leaks", path)
    assert (fields["file"], fields["growth"], fields["judged"]) == (path, 2048.0, True)
    assert fields["found"][0]["tag"]["op"] == "aten.mm"
    assert fields["live"] > 12 * 2048


@pytest.mark.parametrize(("every", "growth"), [(1, "4 B"), (2, "8 B"), (3, "12 B")])
def test_several_steps_as_one_iteration(saved, every, growth, printed):
    path = saved("leaky.pgmoprof", iterations=24, keep_losses_every=1)
    shown = printed("stats", "--leaks", path, "--every", every)
    assert f"{growth} per iteration ({24 // every} iterations of the trace" in shown


def test_too_few_iterations_and_a_file_without_a_history_are_refused(saved, tmp_path, capsys):
    path = saved("leaky.pgmoprof", iterations=6)
    assert main(["stats", "--leaks", path, "--every", "6"]) == 2
    assert "6 steps, too few for 2 iterations of 6; choose fewer steps" in capsys.readouterr().err
    Profile.from_columns(size=[8], start=[0], end=[1], ticks=1).save(tmp_path / "a.pgmoprof")
    assert main(["stats", "--leaks", str(tmp_path / "a.pgmoprof"), "--every", "3"]) == 2
    assert "a.pgmoprof has none" in capsys.readouterr().err


@pytest.mark.parametrize("options", [["--check"], ["--leaks", "--blocks"], ["--every", "3"]])
def test_options_that_would_do_nothing_are_refused(saved, options, refused):
    assert "--leaks" in refused("stats", saved("a.pgmoprof", iterations=5), *options, code=2)
