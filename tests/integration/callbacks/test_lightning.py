"""Tests of the callback in Lightning, on the CPU."""

import csv
import importlib
import sys
import warnings
from functools import partial
from pathlib import Path

import pytest

import pgmo
from tests.integration.callbacks.serving import later_hit_rate
from tests.same_bits import assert_same_bits, bits

torch = pytest.importorskip("torch")
nn = torch.nn

_NAMES = ("lightning.pytorch", "pytorch_lightning")


def results(module):
    return module.losses, bits(module.state_dict().values())


@pytest.fixture(params=_NAMES)
def lightning(request, monkeypatch):
    """Return one of the two packages with its callback, as if the other one were not installed."""
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


def trainer_of(package, folder, callback, **options):
    return package.Trainer(
        **{
            "accelerator": "cpu",
            "logger": False,
            "enable_checkpointing": False,
            "enable_progress_bar": False,
            "enable_model_summary": False,
            "default_root_dir": folder,
            **options,
        },
        callbacks=[callback] if callback else [],
    )


def train(package, folder, callback=None, fail_at=None, checkpoint=None, **options):
    torch.manual_seed(0)
    data = torch.utils.data.TensorDataset(torch.randn(800, 32), torch.randint(0, 5, (800,)))
    model = lightning_module(package, fail_at)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"(pytorch_)?lightning.*")
        often = {"max_steps": 14, "val_check_interval": 10, "limit_val_batches": 3}
        trainer = trainer_of(package, folder, callback, **{**often, **options})
        loader = torch.utils.data.DataLoader(data, 16)
        trainer.fit(model, loader, torch.utils.data.DataLoader(data, 20), ckpt_path=checkpoint)
    return model, trainer


def csv_logger(package, folder):
    return importlib.import_module(f"{package.__name__}.loggers").CSVLogger(folder, name="log")


def logged(logger):
    """Return the rows of the log's file."""
    with open(Path(logger.log_dir, "metrics.csv"), newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("accumulated", [1, 2])
def test_training_is_bit_identical_and_served(lightning, tmp_path, accumulated):
    run = partial(train, lightning, tmp_path, accumulate_grad_batches=accumulated)
    plain, _ = run()
    callback = lightning.pgmo_callback()
    served, _ = run(callback)
    assert_same_bits(results(plain), results(served), lambda: results(run()[0]))
    session = callback.session
    assert session.phase == "closed"
    assert session.summary().iterations == 14
    assert later_hit_rate(session) >= 0.99


def test_loggers_get_the_figures(lightning, tmp_path):
    logger = csv_logger(lightning, tmp_path)
    callback = lightning.pgmo_callback()
    train(lightning, tmp_path, callback, logger=logger, log_every_n_steps=7)
    rows = [row for row in logged(logger) if row["pgmo/peak_live"]]
    assert [row["step"] for row in rows] == ["6", "13"]
    assert float(rows[1]["pgmo/from_plan"]) > 0.99
    assert float(rows[1]["pgmo/peak_live"]) > 0
    assert float(rows[1]["pgmo/reserved"]) > 0  # current bytes, which may be below the peak


@pytest.mark.parametrize("every", [1, 2])
def test_two_optimizers_in_one_step_are_one_iteration_with_one_log(lightning, tmp_path, every):
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

    logger = csv_logger(lightning, tmp_path)
    callback = lightning.pgmo_callback()
    options = {"max_epochs": 2, "logger": logger, "log_every_n_steps": 5}
    trainer = trainer_of(lightning, tmp_path, callback, **options)
    data = torch.utils.data.TensorDataset(torch.randn(208, 8))
    trainer.fit(Gan(), torch.utils.data.DataLoader(data, 16))
    rows = logged(logger)
    own = [row["step"] for row in rows if row["loss"]]
    assert own == ["4", "9", "14", "19", "24"]
    assert [row["step"] for row in rows if row["pgmo/peak_live"]] == own
    if every == 1:
        assert callback.session.summary().iterations == 26
        assert callback.session.summary().plans == 1


def test_checkpoints_name_the_plan_and_going_on_begins_with_it(lightning, tmp_path):
    callback = lightning.pgmo_callback(save=tmp_path / "plans", model_name="net")
    _, trainer = train(lightning, tmp_path, callback)
    checkpoint = tmp_path / "last.ckpt"
    trainer.save_checkpoint(checkpoint)
    kept = torch.load(checkpoint, weights_only=False)["callbacks"]["PgmoCallback"]
    assert kept == {"plan": str(tmp_path / "plans" / "net.pgmoplan")}
    again = lightning.pgmo_callback()
    train(lightning, tmp_path, again, checkpoint=checkpoint, max_steps=24)
    summary = again.session.summary()
    assert summary.iterations == 10
    assert summary.replayed >= 8  # the first iterations are compared with the plan


def test_out_of_memory_is_explained(lightning, tmp_path, capsys):
    callback = lightning.pgmo_callback(save=tmp_path / "plans")
    with pytest.raises(torch.OutOfMemoryError):
        train(lightning, tmp_path, callback, fail_at=9)
    assert callback.session.phase == "closed"
    (profile,) = (tmp_path / "plans").glob("pgmo-oom-*.pgmoprof")
    assert pgmo.Profile.load(profile).circular
    (text,) = (tmp_path / "plans").glob("pgmo-oom-*.txt")
    assert text.read_text().startswith("OutOfMemoryError: CUDA out of memory.")
    assert f"Next: pgmo report {profile}" in capsys.readouterr().err


def test_strategies_that_are_not_supported_run_without(lightning, tmp_path):
    callback = lightning.pgmo_callback()

    class ShardedStrategy(lightning.strategies.SingleDeviceStrategy):
        pass

    with pytest.warns(
        UserWarning, match="pgmo is not used in this training: Lightning's ShardedStrategy"
    ):
        train(lightning, tmp_path, callback, strategy=ShardedStrategy("cpu"))
    assert callback.session is None


def test_unknown_options_are_refused(lightning):
    with pytest.raises(pgmo.errors.OptionError, match="there is no option 'profile_steps'"):
        lightning.pgmo_callback(profile_steps=3)
