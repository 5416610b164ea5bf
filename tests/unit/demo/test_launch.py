import pytest

from pgmo.demo.job import TrainingJob
from pgmo.demo.launch import WorkerError, launch, worker_environment

pytest.importorskip("torch")


def test_a_job_runs_in_a_process_of_its_own_and_says_how_far_it_is():
    steps: list[int] = []
    outcome = launch(TrainingJob("lstm", "default", iterations=3, threads=1), on_step=steps.append)
    assert steps == [1, 2, 3]
    assert len(outcome.losses) == 3
    assert all(float.fromhex(loss) > 0 for loss in outcome.losses)
    assert outcome.threads == 1
    assert outcome.rss > 2**24


def test_an_explained_failure_is_passed_on():
    with pytest.raises(WorkerError, match=r"training 'vgg' .* failed: there is no demo network"):
        launch(TrainingJob("vgg", "default"))


def test_the_last_words_of_a_crash_are_passed_on():
    messages: list[str] = []
    with pytest.raises(WorkerError, match=r"exit status 1 .*last words:\n(.*\n)*.*sabotage"):
        launch(
            TrainingJob("lstm", "default"),
            environment={"PYTHONWARNINGS": "error", "PYTHONSTARTUP": "", "PYTHONHOME": "/sabotage"},
            on_message=messages.append,
        )
    assert any("sabotage" in message for message in messages)


def test_the_environment_reaches_the_process():
    outcome = launch(
        TrainingJob("lstm", "default", iterations=1), environment={"OMP_NUM_THREADS": "1"}
    )
    assert outcome.threads == 1


def test_the_number_of_threads_does_not_follow_the_load(monkeypatch):
    monkeypatch.setenv("OMP_DYNAMIC", "TRUE")
    assert worker_environment({})["OMP_DYNAMIC"] == "FALSE"
