"""The callbacks inside the real packages, on the CPU."""

import csv
import importlib
import json
import sys
import warnings
from functools import partial
from pathlib import Path

import pytest

import pgmo
from pgmo.integrations.training_hook import TrainingHook
from tests.integration import running
from tests.same_bits import assert_same_bits, bits

torch = pytest.importorskip("torch")
nn = torch.nn

_NAMES = ("lightning.pytorch", "pytorch_lightning")


def results(module):
    return module.losses, bits(module.state_dict().values())


def later_hit_rate(session, last=6):
    iterations = session.history[-last:]
    assert all(one.phase == "replay" for one in iterations)
    return sum(one.hits for one in iterations) / sum(one.requests for one in iterations)


# --- Lightning ------------------------------------------------------------------------------------


@pytest.fixture(params=_NAMES)
def lightning(request, monkeypatch):
    """One of the two packages, as if the other were not installed; and the callback for it."""
    pytest.importorskip("lightning")
    package = pytest.importorskip(request.param)
    (other,) = set(_NAMES) - {request.param}
    monkeypatch.setitem(sys.modules, other, None)
    monkeypatch.delitem(sys.modules, "pgmo.integrations.lightning", raising=False)
    monkeypatch.delitem(sys.modules, other)
    from pgmo.integrations.lightning import PgmoCallback

    package.pgmo_callback = PgmoCallback
    yield package
    sys.modules.pop("pgmo.integrations.lightning", None)


def lightning_module(package, fail_at=None):
    class Classifier(package.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(32, 64), nn.Dropout(0.1), nn.Linear(64, 5))
            self.losses = []

        def training_step(self, batch, number):
            if number == fail_at:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
            loss = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
            self.losses.append(loss.item())
            return loss

        def validation_step(self, batch, _number):
            self.net(batch[0])

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=1e-3)

    return Classifier()


def train_lightning(package, folder, callback=None, fail_at=None, checkpoint=None, **options):
    torch.manual_seed(0)
    data = torch.utils.data.TensorDataset(torch.randn(800, 32), torch.randint(0, 5, (800,)))
    model = lightning_module(package, fail_at)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"(pytorch_)?lightning.*")
        trainer = package.Trainer(
            **{
                "max_steps": 14,
                "accelerator": "cpu",
                "logger": False,
                "enable_checkpointing": False,
                "enable_progress_bar": False,
                "enable_model_summary": False,
                "val_check_interval": 10,
                "limit_val_batches": 3,
                "default_root_dir": folder,
                **options,
            },
            callbacks=[callback] if callback else [],
        )
        loader = torch.utils.data.DataLoader(data, 16)
        trainer.fit(model, loader, torch.utils.data.DataLoader(data, 20), ckpt_path=checkpoint)
    return model, trainer


@pytest.mark.parametrize("accumulated", [1, 2])
def test_lightning_training_is_bit_identical_and_served(lightning, tmp_path, accumulated):
    train = partial(train_lightning, lightning, tmp_path, accumulate_grad_batches=accumulated)
    plain, _ = train()
    callback = lightning.pgmo_callback()
    served, _ = train(callback)
    assert_same_bits(results(plain), results(served), lambda: results(train()[0]))
    session = callback.session
    assert session.phase == "closed"
    assert session.summary().iterations == 14
    assert later_hit_rate(session) >= 0.99


def test_lightning_loggers_get_the_figures(lightning, tmp_path):
    loggers = importlib.import_module(f"{lightning.__name__}.loggers")
    logger = loggers.CSVLogger(tmp_path, name="log")
    train_lightning(
        lightning, tmp_path, lightning.pgmo_callback(), logger=logger, log_every_n_steps=7
    )
    with open(Path(logger.log_dir, "metrics.csv"), newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["pgmo/peak_live"]]
    assert [row["step"] for row in rows] == ["6", "13"]
    assert float(rows[1]["pgmo/from_plan"]) > 0.99
    assert float(rows[1]["pgmo/peak_live"]) > 0
    assert float(rows[1]["pgmo/reserved"]) > 0  # now, which may be less than the peak


@pytest.mark.parametrize("every", [1, 2])
def test_lightning_logs_the_figures_of_two_optimizers_at_its_own_steps(lightning, tmp_path, every):
    class Gan(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = False
            self.parts = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8)])

        def training_step(self, batch, number):
            for part, optimizer in zip(self.parts, self.optimizers(), strict=True):
                loss = part(batch[0]).square().mean()
                self.manual_backward(loss)
                if number % every == 0:
                    optimizer.step()
                    optimizer.zero_grad()
            self.log("loss", loss)

        def configure_optimizers(self):
            return [torch.optim.SGD(part.parameters(), lr=0.1) for part in self.parts], []

    loggers = importlib.import_module(f"{lightning.__name__}.loggers")
    logger = loggers.CSVLogger(tmp_path, name="log")
    trainer = lightning.Trainer(
        max_epochs=2,
        accelerator="cpu",
        logger=logger,
        log_every_n_steps=5,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[lightning.pgmo_callback()],
        default_root_dir=tmp_path,
    )
    data = torch.utils.data.TensorDataset(torch.randn(208, 8))
    trainer.fit(Gan(), torch.utils.data.DataLoader(data, 16))
    with open(Path(logger.log_dir, "metrics.csv"), newline="") as file:
        rows = list(csv.DictReader(file))
    own = [row["step"] for row in rows if row["loss"]]
    assert own == ["4", "9", "14", "19", "24"]
    assert [row["step"] for row in rows if row["pgmo/peak_live"]] == own


def test_lightning_two_optimizers_in_one_step_are_one_iteration(lightning, tmp_path):
    class Gan(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = False
            self.parts = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8)])

        def training_step(self, batch, _number):
            for part, optimizer in zip(self.parts, self.optimizers(), strict=True):
                optimizer.zero_grad()
                self.manual_backward(part(batch[0]).square().mean())
                optimizer.step()

        def configure_optimizers(self):
            return [torch.optim.SGD(part.parameters(), lr=0.1) for part in self.parts], []

    data = torch.utils.data.TensorDataset(torch.randn(200, 8))
    callback = lightning.pgmo_callback()
    trainer = lightning.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[callback],
        default_root_dir=tmp_path,
    )
    trainer.fit(Gan(), torch.utils.data.DataLoader(data, 16))
    assert callback.session.summary().iterations == 13
    assert callback.session.summary().plans == 1


def test_lightning_checkpoints_name_the_plan_and_going_on_begins_with_it(lightning, tmp_path):
    callback = lightning.pgmo_callback(save=tmp_path / "plans", model_name="net")
    _, trainer = train_lightning(lightning, tmp_path, callback)
    checkpoint = tmp_path / "last.ckpt"
    trainer.save_checkpoint(checkpoint)
    kept = torch.load(checkpoint, weights_only=False)["callbacks"]["PgmoCallback"]
    assert kept == {"plan": str(tmp_path / "plans" / "net.pgmoplan")}
    again = lightning.pgmo_callback()
    train_lightning(lightning, tmp_path, again, checkpoint=checkpoint, max_steps=24)
    summary = again.session.summary()
    assert summary.iterations == 10
    assert summary.replayed >= 8  # the first ones are compared with the plan


def test_lightning_out_of_memory_is_explained(lightning, tmp_path, capsys):
    callback = lightning.pgmo_callback(save=tmp_path / "plans")
    with pytest.raises(torch.OutOfMemoryError):
        train_lightning(lightning, tmp_path, callback, fail_at=9)
    assert callback.session.phase == "closed"
    (profile,) = (tmp_path / "plans").glob("pgmo-oom-*.pgmoprof")
    assert pgmo.Profile.load(profile).circular
    (text,) = (tmp_path / "plans").glob("pgmo-oom-*.txt")
    assert text.read_text().startswith("OutOfMemoryError: CUDA out of memory.")
    assert f"Next: pgmo report {profile}" in capsys.readouterr().err


def test_lightning_strategies_that_are_not_supported_run_without(lightning, tmp_path):
    callback = lightning.pgmo_callback()

    class ShardedStrategy(lightning.strategies.SingleDeviceStrategy):
        pass

    with pytest.warns(
        UserWarning, match="pgmo is not used in this training: Lightning's ShardedStrategy"
    ):
        train_lightning(lightning, tmp_path, callback, strategy=ShardedStrategy("cpu"))
    assert callback.session is None


def test_lightning_unknown_options_are_refused(lightning):
    with pytest.raises(pgmo.errors.OptionError, match="there is no option 'profile_steps'"):
        lightning.pgmo_callback(profile_steps=3)


# --- transformers ---------------------------------------------------------------------------------


@pytest.fixture
def transformers():
    pytest.importorskip("accelerate")
    return pytest.importorskip("transformers")


def train_transformers(transformers, folder, callback=None, *, resume=None, **options):
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
def test_transformers_training_is_bit_identical_and_served(transformers, tmp_path, accumulated):
    from pgmo.integrations.transformers import PgmoTrainerCallback

    options = {"gradient_accumulation_steps": accumulated}
    train = partial(train_transformers, transformers, tmp_path, **options)
    plain = train()
    callback = PgmoTrainerCallback()
    served = train(callback)
    assert_same_bits(plain, served, train)
    assert callback.session.phase == "closed"
    assert callback.session.summary().iterations == 14
    assert later_hit_rate(callback.session, last=3) >= 0.99


def test_transformers_reporters_get_the_figures_with_the_loss(transformers, tmp_path):
    from pgmo.integrations.transformers import PgmoTrainerCallback

    class Reporter(transformers.TrainerCallback):
        """As those for TensorBoard and others, it comes before the callbacks of the user."""

        def __init__(self):
            self.logs = []

        def on_log(self, args, state, control, logs=None, **kwargs):
            self.logs.append(dict(logs))

    reporter = Reporter()
    train_transformers(transformers, tmp_path, [reporter, PgmoTrainerCallback()])
    trained = [one for one in reporter.logs if "loss" in one]
    assert len(trained) == 14
    assert all(one["pgmo/peak_live"] > 0 for one in trained)
    assert trained[-1]["pgmo/from_plan"] > 0.99
    evaluated = [one for one in reporter.logs if "eval_loss" in one]
    assert evaluated
    assert not any("pgmo/peak_live" in one for one in evaluated)
    before = len(reporter.logs)
    train_transformers(transformers, tmp_path, [reporter])
    assert not any("pgmo/peak_live" in one for one in reporter.logs[before:])


def test_an_error_in_the_figures_does_not_end_the_training(transformers, tmp_path, monkeypatch):
    from pgmo.integrations.transformers import PgmoTrainerCallback

    def session_metrics(_session):
        raise KeyError("arena_bytes")

    monkeypatch.setattr("pgmo.integrations.training_hook.session_metrics", session_metrics)
    callback = PgmoTrainerCallback()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        train_transformers(transformers, tmp_path, callback)
    said = [str(one.message) for one in caught if "figures" in str(one.message)]
    assert said == ["pgmo's figures could not be logged: KeyError: 'arena_bytes'"]
    assert callback.session.summary().iterations == 14


def test_transformers_checkpoints_name_the_plan(transformers, tmp_path):
    from pgmo.integrations.transformers import PgmoTrainerCallback

    callback = PgmoTrainerCallback(save=tmp_path / "plans", model_name="bert")
    options = {"save_strategy": "steps", "save_steps": 10}
    train_transformers(transformers, tmp_path, callback, **options)
    path = tmp_path / "checkpoint-10"
    state = json.loads((path / "trainer_state.json").read_text())
    kept = state["stateful_callbacks"]["PgmoTrainerCallback"]
    assert kept["attributes"] == {"plan_path": str(tmp_path / "plans" / "bert.pgmoplan")}
    again = PgmoTrainerCallback()
    options |= {"max_steps": 20, "restore_callback_states_from_checkpoint": True}
    with pytest.MonkeyPatch.context() as patch:
        remembered = []
        patch.setattr(TrainingHook, "remember", lambda guest, path: remembered.append(path))
        train_transformers(transformers, tmp_path, again, resume=str(path), **options)
    assert remembered == [kept["attributes"]["plan_path"]]


def test_transformers_unsupported_setups_run_without(transformers, tmp_path, monkeypatch):
    from pgmo.integrations.transformers import PgmoTrainerCallback

    monkeypatch.setattr(transformers.TrainingArguments, "n_gpu", 2)
    callback = PgmoTrainerCallback()
    with pytest.warns(
        UserWarning, match="pgmo is not used in this training: torch.nn.DataParallel"
    ):
        train_transformers(transformers, tmp_path, callback, max_steps=2)
    assert callback.session is None


def test_transformers_out_of_memory_is_explained(transformers, tmp_path):
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
