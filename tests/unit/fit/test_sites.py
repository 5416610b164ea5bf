"""Tests of the evaluations, saves and replacements in a script, and of which of them ran."""

import runpy
import textwrap
from pathlib import Path

import pytest
import torch

from pgmo.fit.observer.__main__ import _file_of
from pgmo.fit.observer.sites import SitesRun, sites_of

SCRIPT = """
    import torch

    @torch.no_grad()
    def evaluate(model):
        model(torch.zeros(2, 4))

    def check(model):
        model.eval()
        with torch.inference_mode():
            model(torch.zeros(2, 4))
        model.train()

    @torch.no_grad()
    def generate(model):
        return model

    def main():
        model = torch.nn.Linear(4, 4)
        average = torch.nn.Linear(4, 4)
        for step in range(STEPS):
            model(torch.zeros(2, 4)).sum().backward()
            with torch.no_grad():
                average.weight.lerp_(model.weight, 0.1)
            if step == 2:
                evaluate(model)
            if step == 4:
                check(model)
            if step == 6:
                torch.save(model.state_dict(), PATH)
            if step == 8:
                with torch.no_grad():
                    model(torch.zeros(8, 4))

    main()
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(textwrap.dedent(SCRIPT))
    return path


@pytest.fixture
def run(script: Path, monkeypatch: pytest.MonkeyPatch) -> SitesRun:
    """Attach a record of sites to torch until the end of the test."""
    for owner, name in (
        (torch.no_grad, "__enter__"),
        (torch.inference_mode, "__enter__"),
        (torch.nn.Module, "eval"),
        (torch, "save"),
    ):
        monkeypatch.setattr(owner, name, getattr(owner, name))
    made = SitesRun(script)
    made.attach()
    return made


def test_functions_that_nothing_calls_are_no_sites(script: Path) -> None:
    texts = [site.text for site in sites_of([script])]
    assert texts == [
        "evaluate() at train.py:4",
        "eval() in check() at train.py:9",
        "code under inference_mode in check() at train.py:10",
        "code under no_grad in main() at train.py:23",
        "torch.save in main() at train.py:30",
        "code under no_grad in main() at train.py:32",
    ]


def test_files_that_are_no_python_have_no_sites(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("with torch.no_grad(:")
    (tmp_path / "bytes.py").write_bytes(b"\0\xff")
    assert sites_of([tmp_path / "broken.py", tmp_path / "bytes.py", tmp_path / "absent.py"]) == []


@pytest.mark.parametrize(
    ("steps", "missed"),
    [
        (
            1,
            [
                "evaluate() at train.py:4",
                "code under inference_mode in check() at train.py:10",
                "torch.save in main() at train.py:30",
            ],
        ),
        (
            3,
            [
                "code under inference_mode in check() at train.py:10",
                "torch.save in main() at train.py:30",
            ],
        ),
        (5, ["torch.save in main() at train.py:30"]),
        (7, ["code under no_grad in main() at train.py:32"]),
        (9, []),
    ],
)
def test_sites_that_did_not_run_are_named(
    script: Path, run: SitesRun, tmp_path: Path, steps: int, missed: list[str]
) -> None:
    runpy.run_path(str(script), {"STEPS": steps, "PATH": str(tmp_path / "model.pt")})
    assert run.missed() == missed


def test_modules_of_the_script_count_and_installed_ones_do_not(
    script: Path, run: SitesRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script.write_text("import pgmo_sites_helper\n")
    code = "import torch\nif False:\n    torch.save({}, 'x')\n"
    (tmp_path / "pgmo_sites_helper.py").write_text(code)
    installed = tmp_path / "site-packages"
    installed.mkdir()
    (installed / "pgmo_sites_installed.py").write_text(code)
    for folder in (tmp_path, installed):
        monkeypatch.syspath_prepend(str(folder))
    import pgmo_sites_helper  # type: ignore[import-not-found]
    import pgmo_sites_installed  # type: ignore[import-not-found]  # noqa: F401

    assert pgmo_sites_helper.__file__ == str(tmp_path / "pgmo_sites_helper.py")
    assert run.missed() == ["torch.save at pgmo_sites_helper.py:3"]


def test_an_own_eval_beside_code_that_ran_is_not_missed(script: Path, run: SitesRun) -> None:
    script.write_text(
        "import torch\n"
        "class Own(torch.nn.Linear):\n"
        "    def eval(self):\n        return self.train(False)\n"
        "def check(model):\n    model.eval()\n"
        "    with torch.no_grad():\n        model(torch.zeros(2, 4))\n"
        "check(Own(4, 4))\n"
    )
    runpy.run_path(str(script))
    assert run.missed() == []


@pytest.mark.parametrize(
    ("strategy", "calls", "evaluates", "missed"),
    [
        ("steps", False, False, ["the evaluation of Trainer"]),
        ("steps", False, True, []),
        ("no", False, False, []),
        ("no", True, False, ["the evaluation of Trainer"]),
    ],
)
def test_the_evaluation_of_a_trainer_is_a_site(
    run: SitesRun,
    monkeypatch: pytest.MonkeyPatch,
    strategy: str,
    calls: bool,
    evaluates: bool,
    missed: list[str],
) -> None:
    trainer = pytest.importorskip("transformers.trainer")
    from transformers.trainer_callback import CallbackHandler

    monkeypatch.setattr(trainer, "Trainer", type("Trainer", (trainer.Trainer,), {}))
    monkeypatch.setattr(trainer.Trainer, "train", lambda self: evaluates and self.evaluate())
    monkeypatch.setattr(trainer.Trainer, "evaluate", lambda self: {})
    monkeypatch.setattr(run._trainer, "_evaluates", lambda: calls)
    run._trainer._hook()
    made = trainer.Trainer.__new__(trainer.Trainer)
    made.args = type("Arguments", (), {"eval_strategy": strategy})()
    made.eval_dataset = [1]
    made.callback_handler = CallbackHandler([], None, None, None, None)
    made.train()
    assert [text for text in run.missed() if "Trainer" in text] == missed


class LibraryTrainer:
    @torch.no_grad()
    def evaluate(self) -> None:
        pass

    predict = test = evaluate


def test_calls_of_trainers_are_sites(script: Path, run: SitesRun) -> None:
    script.write_text(
        "if RUNS:\n    trainer.evaluate()\n"
        "if RUNS:\n    trainer.predict()\n"
        "def later():\n    trainer.test()\n"
        "later\n"
        "if not RUNS:\n    classifier.predict()\n"
    )
    names = {"trainer": LibraryTrainer(), "classifier": LibraryTrainer()}
    runpy.run_path(str(script), {"RUNS": False, **names})
    assert run._evaluates()
    later = "trainer.test in later() at train.py:6"
    first = ["trainer.evaluate at train.py:2", "trainer.predict at train.py:4"]
    assert run.missed() == [*first, later]
    runpy.run_path(str(script), {"RUNS": True, **names})
    assert run.missed() == [later]


def test_methods_of_a_trainer_of_the_script_have_sites_of_their_own(
    script: Path, run: SitesRun
) -> None:
    script.write_text(
        "import torch\n"
        "class Trainer:\n"
        "    def test(self):\n"
        "        with torch.no_grad():\n            pass\n"
        "trainer = Trainer()\n"
        "if RUNS:\n    trainer.test()\n"
    )
    runpy.run_path(str(script), {"RUNS": False})
    assert run.missed() == ["code under no_grad in test() at train.py:4"]
    runpy.run_path(str(script), {"RUNS": True})
    assert run.missed() == []


def test_lightning_validates_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lightning = pytest.importorskip("lightning")
    from lightning.pytorch.loops.evaluation_loop import _EvaluationLoop
    from lightning.pytorch.loops.training_epoch_loop import _TrainingEpochLoop

    from pgmo.fit.observer.trainer import LightningValidation

    for owner, name in ((_TrainingEpochLoop, "_should_check_val_fx"), (_EvaluationLoop, "run")):
        monkeypatch.setattr(owner, name, getattr(owner, name))
    noted = LightningValidation()
    noted.attach()
    seen: list[tuple[int, bool]] = []

    class Model(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 1)

        def training_step(self, batch: torch.Tensor) -> torch.Tensor:
            return self.linear(batch).square().mean()

        def validation_step(self, batch: torch.Tensor) -> None:
            seen.append((self.trainer.global_step, noted.is_missed))

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    trainer = lightning.Trainer(
        max_steps=14, accelerator="cpu", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, default_root_dir=str(tmp_path),
    )  # fmt: skip
    trainer.fit(Model(), torch.ones(100, 4), torch.ones(1, 4))
    # Lightning's check before training, and the validation that the observer makes early.
    assert seen[:2] == [(0, False), (11, True)]
    assert noted.is_planned
    assert not noted.is_missed


def test_a_trainer_evaluates_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    from pgmo.fit.observer.trainer import TrainerEvaluation

    trainer = transformers.Trainer
    for name in ("train", "evaluate"):
        monkeypatch.setattr(trainer, name, getattr(trainer, name))
    noted = TrainerEvaluation()
    noted.attach()

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 1)

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"loss": self.linear(x).square().mean()}

    data = [{"x": torch.ones(4)} for _ in range(40)]
    given = transformers.TrainingArguments(
        str(tmp_path), max_steps=12, eval_strategy="steps", eval_steps=500, save_strategy="no",
        report_to="none", use_cpu=True, disable_tqdm=True,
    )  # fmt: skip
    made = trainer(Model(), given, train_dataset=data, eval_dataset=data[:8])
    made.train()
    assert noted.is_planned
    assert not noted.is_missed
    assert [row["step"] for row in made.state.log_history if "eval_runtime" in row] == [11, 12]


def test_the_script_of_a_package_is_its_main_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "trainer_of_test"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('imported too early')")
    (package / "train.py").write_text("")
    (package / "__main__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    assert _file_of(["-m", package.name]) == package / "__main__.py"
    assert _file_of([str(package / "train.py")]) == package / "train.py"
    assert _file_of(["-m", "no_module_of_this_name"]) is None
