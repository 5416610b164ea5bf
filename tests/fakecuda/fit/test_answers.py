"""Answers about a script agree with its runs."""

from dataclasses import replace
from pathlib import Path

import pytest

import pgmo
from pgmo.errors import RehearsalError
from pgmo.fit.evidence import Evidence, Job, collect
from pgmo.fit.largest import MOST, search, unlimited
from pgmo.fit.laws.law import Law
from pgmo.fit.what_if.arithmetic import Model
from pgmo.rehearsal import rehearse
from tests.fakecuda.fit.scripts import (
    ATTENTION,
    BEGIN,
    BLOCKS,
    CONVOLUTIONS,
    PARAMETERS,
    card,
    run,
    write,
)


@pytest.fixture
def script(tmp_path: Path) -> str:
    """Return the path of a training script."""
    return write(tmp_path)


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    """Return one rehearsal of the script at batch 8."""
    job = Job((write(tmp_path_factory.mktemp("evidence")),), vary="--batch-size {}")
    return collect(job, unlimited(card(1)), value=8, way="pgmo")


def test_one_rehearsal_says_what_all_ways_take(script: str, evidence: Evidence) -> None:
    need = Law([evidence]).need(8)
    for way in ("default", "expandable"):
        done = run(script, 8, unlimited(card(1)), way)
        assert need.reserved[way] == done.reserved_peak
    assert need.parameters == PARAMETERS
    assert need.optimizer_state == 2 * PARAMETERS
    assert sum(need.categories.values()) == need.allocated_peak


@pytest.mark.parametrize(
    ("code", "option", "mib"),
    [
        (BLOCKS, "--batch-size", 400),
        pytest.param(CONVOLUTIONS, "--batch-size", 600, marks=pytest.mark.slow),
        pytest.param(ATTENTION, "--length", 900, marks=pytest.mark.slow),
    ],
)
def test_the_largest_value_fits_and_a_larger_one_does_not(
    tmp_path: Path, code: str, option: str, mib: int
) -> None:
    script, where = write(tmp_path, code), card(mib)
    found = search(Job((script,), vary=f"{option} {{}}"), where)
    assert len(found.evidence) <= MOST
    for one in found.found:
        assert one.value > 4
        assert one.proved or run(script, one.value, where, one.way, option).fits
        more = 16 if option == "--length" else 1
        assert not run(script, one.value + more, where, one.way, option).fits


def test_a_script_that_does_not_fit_says_what_is_missing(script: str) -> None:
    found = pgmo.fit(script, card=card(80), vary="--batch-size {}", batch=16)
    assert not found.fits["pgmo"]
    assert found.spare < 0
    enough = replace(found.card, usable=found.card.usable - found.spare)
    assert run(script, 16, enough, "pgmo").fits


def test_changes_are_rehearsed_and_take_less(script: str, evidence: Evidence) -> None:
    job = Job((script,), vary="--batch-size {}")
    plain = Law([evidence]).at(8).peak
    for change in ("autocast:bfloat16", "checkpoint", "recompute:min"):
        changed = Law([collect(job, unlimited(card(1)), value=8, change=change)]).at(8).peak
        assert changed < 0.9 * plain, change


def test_work_is_that_of_the_matrices(evidence: Evidence) -> None:
    flops = sum(count * flops for _, flops, _, count in evidence.known["work"])
    products = 2 * 8 * 512 * 4 * 2 * 256 * 1024
    # The first layer's input needs no gradient, but its normalisation's parameters do.
    assert flops == pytest.approx(3 * products)


def test_a_function_is_rehearsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "made.py").write_text(
        "import torch\n"
        "model = torch.nn.Linear(512, 512).cuda()\n"
        "optimizer = torch.optim.SGD(model.parameters())\n"
        "def step(batch):\n"
        "    model(torch.randn(batch, 512).cuda()).sum().backward()\n"
        "    optimizer.step()\n"
        "    optimizer.zero_grad()\n"
    )
    monkeypatch.chdir(tmp_path)
    job = Job(("made:step",), call=True, takes_batch=True)
    need = Law([collect(job, unlimited(card(1)), value=64)]).need(64)
    assert need.parameters == 4 * 512 * 513
    assert need.optimizer_state == 0


def test_a_head_that_shares_an_embeddings_weight_is_no_linear_layer(tmp_path: Path) -> None:
    code = """
import torch
from torch import nn
words, inner, head = nn.Embedding(900, 64), nn.Linear(64, 64), nn.Linear(64, 900)
head.weight = words.weight
model = nn.Sequential(words, inner, head).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(9):
    model(torch.randint(900, (4, 8)).cuda()).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
    found = collect(Job((write(tmp_path, code),)), unlimited(card(1)), work=False)
    assert Model.of(found.known).linear == [([64, 64], 4)]


@pytest.mark.parametrize(
    ("code", "match"),
    [
        ("import torch\ntorch.zeros(3).cuda()", "without a step of a torch optimizer"),
        ("raise KeyError('data')", "failed with exit code 1: KeyError"),
        (
            "import torch\ntorch.cuda._lazy_call(lambda: {}['late'])\ntorch.zeros(3).cuda()",
            r"lazily.*\(from KeyError: 'late'\)",
        ),
        (BLOCKS.replace(".cuda()", ""), "trains on the CPU"),
        (f"import torch\ntorch.cuda.init()\n{BLOCKS.replace('.cuda()', '')}", "trains on the CPU"),
    ],
)
def test_an_impossible_rehearsal_names_its_cause(tmp_path: Path, code: str, match: str) -> None:
    with pytest.raises(RehearsalError, match=match):
        collect(Job((write(tmp_path, code),)), card(100))


def after_a_step(step: int, *lines: str) -> str:
    """Return the script with code that runs after a step."""
    end = "    optimizer.zero_grad()\n"
    code = "".join(f"        {line}\n" for line in lines)
    return BLOCKS.replace(end, f"{end}    if step == {step}:\n{code}")


def test_an_evaluation_that_begins_later_is_not_covered(tmp_path: Path) -> None:
    code = after_a_step(
        500, "with torch.no_grad():", "    model(torch.randn(4096, 512, 256).cuda())"
    )
    line = code.splitlines().index("        with torch.no_grad():") + 1
    found = pgmo.fit(write(tmp_path, code), card=card(1 << 12))
    assert found.is_fit
    assert found.missed == (f"code under no_grad at train.py:{line}",)
    assert f"Not covered: code under no_grad at train.py:{line}," in found.sentence


@pytest.mark.slow
def test_a_later_step_is_rehearsed_without_pgmo(tmp_path: Path) -> None:
    code = after_a_step(
        7,
        "kept = [torch.zeros(6 << 18, device='cuda') for _ in range(30)]",
        "del kept[::2]",  # fragments: six free blocks of 20 MiB in each segment
        "kept.append(torch.zeros(96 << 18, device='cuda'))",
    )
    script = write(tmp_path, code)
    where = unlimited(card(1))
    plain, own = (run(script, 8, where, way) for way in ("default", "pgmo"))
    assert own.card_peak < plain.card_peak - (48 << 20)
    between = card(((own.card_peak + plain.card_peak) // 2 - own.context) >> 20)
    found = pgmo.fit(script, card=between)
    for way in ("default", "expandable", "pgmo"):
        assert found.fits[way] is run(script, 8, between, way).fits, way
    assert not found.fits["default"]
    assert found.need.total("default") > between.usable


def test_a_library_may_import_torch_before_the_script(tmp_path: Path) -> None:
    library = tmp_path / "transformers"
    library.mkdir()
    (library / "__init__.py").touch()
    (library / "trainer.py").write_text(
        "import torch\n\nclass Trainer:\n    def train(self): ...\n    def evaluate(self): ...\n"
    )
    script = write(tmp_path, f"from transformers.trainer import Trainer\n{BLOCKS}")
    assert pgmo.fit(script, card=card(1 << 12)).is_fit


def test_values_that_wait_on_the_host_are_counted_there(tmp_path: Path) -> None:
    step = "model(torch.randn(shape).cuda()).square().mean().backward()"
    offload = "with torch.autograd.graph.save_on_cpu(pin_memory=True):"
    script = write(tmp_path, BLOCKS.replace(step, f"{offload}\n            {step}"))
    found = pgmo.fit(script, card="8GiB", vary="--batch-size {}", batch=16)
    # A lower bound: the values that each of four blocks saves for its backward pass.
    saved = 4 * 16 * 512 * (2 * 256 + 2 * 1024) * 4
    assert saved <= found.pinned < 2.5 * saved  # PyTorch rounds up to powers of two
    assert " The job pins " in found.sentence


SERVE = f"""{BEGIN}
model = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(8)]).cuda()
cache = torch.zeros(8, 2, given.batch_size, given.length, 1024, device="cuda")
with torch.inference_mode():
    for layer in range(8):
        hidden = torch.zeros(given.batch_size, given.length, 1024, device="cuda")
        cache[layer, :] = model[layer](hidden)
"""
"""Inference with a cache of 64 KiB and, in one layer, 8 KiB of other values per token."""


@pytest.mark.slow
def test_requests_that_fit_at_each_length(tmp_path: Path) -> None:
    script, where = write(tmp_path, SERVE), card(1200)
    found = pgmo.fit.table(
        script, vary="--batch-size {n} --length {l}", card=where, lengths=(64, 128)
    )
    assert [one.proved for one in found.rows].count(True) == 3
    for row in (one for one in found.rows if one.proved):
        for more, fits in ((0, True), (1, False)):
            words = ["--batch-size", str(row.batch + more), "--length", str(row.length)]
            assert rehearse([script, *words], card=where, way="pgmo").fits == fits
