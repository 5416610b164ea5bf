"""Tests of the callback in the Trainer of transformers, on the CPU."""

import json
from functools import partial

import pytest

from pgmo.integrations.training_hook import TrainingHook
from tests.integration import running
from tests.integration.callbacks.serving import later_hit_rate
from tests.same_bits import assert_same_bits, bits

torch = pytest.importorskip("torch")
pytest.importorskip("accelerate")
transformers = pytest.importorskip("transformers")

from pgmo.integrations.transformers import PgmoTrainerCallback  # noqa: E402


def train(folder, callback=None, *, resume=None, **options):
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=50,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=20,
    )
    model = transformers.BertForSequenceClassification(config)
    tokens = torch.randint(0, 50, (200, 16), generator=torch.Generator().manual_seed(1))
    data = [{"input_ids": one, "labels": int(one[0]) % 2} for one in tokens]
    arguments = transformers.TrainingArguments(
        **{
            "output_dir": str(folder),
            "max_steps": 14,
            "per_device_train_batch_size": 4,
            "eval_strategy": "steps",
            "eval_steps": 10,
            "logging_steps": 1,
            "save_strategy": "no",
            "report_to": [],
            "disable_tqdm": True,
            "use_cpu": True,
            **options,
        }
    )
    trainer = transformers.Trainer(
        model,
        arguments,
        train_dataset=data,
        eval_dataset=data[:10],
        callbacks=callback if isinstance(callback, list) else [callback] if callback else [],
    )
    trainer.train(resume_from_checkpoint=resume)
    losses = [one["loss"] for one in trainer.state.log_history if "loss" in one]
    return losses, bits(model.state_dict().values())


@pytest.mark.parametrize("accumulated", [1, 2])
def test_training_is_bit_identical_and_served(tmp_path, accumulated):
    options = {"gradient_accumulation_steps": accumulated}
    run = partial(train, tmp_path, **options)
    plain = run()
    callback = PgmoTrainerCallback()
    served = run(callback)
    assert_same_bits(plain, served, run)
    assert callback.session.phase == "closed"
    assert callback.session.summary().iterations == 14
    assert later_hit_rate(callback.session, last=3) >= 0.99


def test_an_evaluation_after_an_epoch_is_in_a_pause(monkeypatch):
    paused = []
    monkeypatch.setattr(TrainingHook, "pause", lambda _hook: paused.append(due))
    for due in (True, False):
        control = transformers.TrainerControl(should_evaluate=due)
        PgmoTrainerCallback().on_epoch_end(None, None, control)
    assert paused == [True]


def test_reporters_get_the_figures_with_the_loss(tmp_path):
    class Reporter(transformers.TrainerCallback):
        """A reporter, which runs before the callbacks of the user, as that for TensorBoard does."""

        def __init__(self):
            self.logs = []

        def on_log(self, args, state, control, logs=None, **kwargs):
            self.logs.append(dict(logs))

    reporter = Reporter()
    train(tmp_path, [reporter, PgmoTrainerCallback()])
    trained = [one for one in reporter.logs if "loss" in one]
    assert len(trained) == 14
    assert all(one["pgmo/peak_live"] > 0 for one in trained)
    assert trained[-1]["pgmo/from_plan"] > 0.99
    evaluated = [one for one in reporter.logs if "eval_loss" in one]
    assert evaluated
    assert not any("pgmo/peak_live" in one for one in evaluated)
    before = len(reporter.logs)
    train(tmp_path, [reporter])
    assert not any("pgmo/peak_live" in one for one in reporter.logs[before:])


def test_checkpoints_name_the_plan(tmp_path):
    callback = PgmoTrainerCallback(save=tmp_path / "plans", model_name="bert")
    options = {"save_strategy": "steps", "save_steps": 10}
    train(tmp_path, callback, **options)
    path = tmp_path / "checkpoint-10"
    state = json.loads((path / "trainer_state.json").read_text())
    kept = state["stateful_callbacks"]["PgmoTrainerCallback"]
    assert kept["attributes"] == {"plan_path": str(tmp_path / "plans" / "bert.pgmoplan")}
    again = PgmoTrainerCallback()
    options |= {"max_steps": 20, "restore_callback_states_from_checkpoint": True}
    with pytest.MonkeyPatch.context() as patch:
        remembered = []
        patch.setattr(TrainingHook, "remember", lambda guest, path: remembered.append(path))
        train(tmp_path, again, resume=str(path), **options)
    assert remembered == [kept["attributes"]["plan_path"]]


def test_unsupported_setups_run_without(tmp_path, monkeypatch):
    monkeypatch.setattr(transformers.TrainingArguments, "n_gpu", 2)
    callback = PgmoTrainerCallback()
    with pytest.warns(
        UserWarning, match="pgmo is not used in this training: torch.nn.DataParallel"
    ):
        train(tmp_path, callback, max_steps=2)
    assert callback.session is None


def test_out_of_memory_is_explained(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import torch, transformers\n"
        "from pgmo.integrations.transformers import PgmoTrainerCallback\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.layer = torch.nn.Linear(4, 4)\n"
        "        self.calls = 0\n"
        "    def forward(self, x, labels=None):\n"
        "        self.calls += 1\n"
        "        if self.calls == 8:\n"
        "            torch.empty(1 << 55, dtype=torch.uint8)\n"
        "        return {'loss': self.layer(x).square().mean()}\n"
        "arguments = transformers.TrainingArguments(\n"
        "    output_dir='out', max_steps=20, report_to=[], use_cpu=True, disable_tqdm=True)\n"
        "data = [{'x': torch.ones(4)}] * 8\n"
        "transformers.Trainer(Net(), arguments, train_dataset=data,\n"
        "    callbacks=[PgmoTrainerCallback()]).train()\n"
    )
    done = running.run(tmp_path, script, check=False)
    assert done.returncode == 1
    assert "pgmo: memory ran out" in done.stderr
    (profile,) = tmp_path.glob("pgmo-oom-*.pgmoprof")
    assert f"Next: pgmo report {profile.name}" in done.stderr
    assert "Traceback (most recent call last):" in done.stderr
