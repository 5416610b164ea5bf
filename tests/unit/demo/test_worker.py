import json
from types import SimpleNamespace

import pytest

from pgmo.demo import worker
from pgmo.demo.job import TrainingJob
from pgmo.demo.network import create
from pgmo.errors import OptionError

pytest.importorskip("torch")


def iteration(phase: str, requests: int, hits: int) -> SimpleNamespace:
    return SimpleNamespace(
        phase=phase,
        requests=requests,
        hits=hits,
        bytes_requested=10 * requests,
        bytes_hit=9 * hits,
    )


def test_hit_rates_count_from_the_second_replayed_iteration():
    history = [
        iteration("record", 100, 0),
        iteration("replay", 100, 1),
        iteration("replay", 100, 50),
        iteration("record", 100, 0),
        iteration("replay", 300, 150),
    ]
    assert worker.hit_rates(history) == (0.5, 0.45)


def test_hit_rates_can_leave_out_what_came_before_the_longest_sequence():
    history = [iteration("replay", 100, hits) for hits in (0, 0, 10, 80, 90)]
    assert worker.hit_rates(history, after=2)[0] == pytest.approx(0.85)


def test_there_is_no_hit_rate_without_a_second_replay():
    assert worker.hit_rates([iteration("record", 5, 0), iteration("replay", 5, 5)]) == (None, None)


def test_the_digest_sees_every_weight_and_buffer():
    model = create("resnet", seed=0).model
    before = worker.digest(model)
    assert worker.digest(create("resnet", seed=0).model) == before
    assert worker.digest(create("resnet", seed=1).model) != before
    buffer = next(model.buffers())
    buffer.add_(1)
    assert worker.digest(model) != before


def test_the_same_job_gives_the_same_losses_and_weights(capsys):
    job = TrainingJob("lstm", "default", iterations=3, seed=5, lengths="varying")
    one, other = worker.run(job), worker.run(job)
    assert (one.losses, one.digest) == (other.losses, other.digest)
    assert len(one.seconds) == len(one.faults) == 3
    assert one.planned is None
    steps = [json.loads(line)["step"] for line in capsys.readouterr().out.splitlines()]
    assert steps == [1, 2, 3, 1, 2, 3]
    assert worker.run(TrainingJob("lstm", "default", 3, 6, "varying")).losses != one.losses


def test_lengths_cannot_vary_without_a_sequence():
    with pytest.raises(OptionError, match="'unet' has no sequence"):
        worker.run(TrainingJob("unet", "default", 3, lengths="varying"))


def test_an_explained_error_is_told_as_json(capsys):
    assert worker.main([TrainingJob("vgg", "default").to_json()]) == 1
    assert "no demo network 'vgg'" in json.loads(capsys.readouterr().out)["error"]


@pytest.mark.parametrize(("asked", "threads"), [(0, 1), (2, 2)])
def test_the_number_of_threads_is_set_in_any_case(asked, threads, monkeypatch):
    """Until then MKL may change it from call to call."""
    import torch

    calls = []
    monkeypatch.setattr(torch, "set_num_threads", calls.append)
    with pytest.raises(OptionError):
        worker.run(TrainingJob("nothing", "default", threads=asked))
    assert calls == [threads]
