"""Scripts that end themselves before they train: their exit code and message are shown."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from pgmo.cli.main import main  # noqa: E402
from pgmo.errors import RehearsalError  # noqa: E402
from pgmo.fit.estimate import estimate_script  # noqa: E402

pytestmark = pytest.mark.skipif(torch.version.cuda is not None, reason="needs a CPU build of torch")

SCRIPT = """
import argparse, sys
parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, required=True)
batch = parser.parse_args().batch
if batch == 1:
    sys.exit("the data are not there")
if batch == 2:
    sys.exit(7)
import torch
net = torch.nn.Linear(512, 512, device="cuda")
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(3):
    net(torch.randn(batch, 512, device="cuda")).sum().backward()
    optimizer.step()
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT)
    return "train.py"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "exit code 2. It said:\nusage: train.py [-h] --batch BATCH\ntrain.py: error: the "),
        (["--batch", "1"], "exit code 1. It said:\nthe data are not there"),
        (["--batch", "2"], "exit code 7, without a message"),
    ],
)
def test_a_script_that_ends_itself(script, arguments, said):
    with pytest.raises(RehearsalError) as caught:
        estimate_script([script, *arguments])
    assert str(caught.value).startswith(f"train.py ended with {said}")
    assert "put nothing on the card" not in str(caught.value)


def test_an_answer_without_a_rehearsal_says_nothing_of_pgmo(script, capsys):
    words = ["fit", "--card", "16GiB", "--report", "fit.html", script, "--batch", "4"]
    assert main([*words[:-2], "--cards", *words[-2:]]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("train.py fits on 16.0 GiB: it takes about ")
    assert "with PyTorch as it is, " in out.splitlines()[0]
    assert "pgmo" not in out
    assert "the other cards are left out" in err
    page = Path("fit.html").read_text()
    assert "with pgmo" not in page
    assert "PyTorch as it is" in page


def test_what_does_not_fit_names_the_rehearsal(script, capsys):
    assert main(["fit", "--card", "600MiB", script, "--batch", "100000"]) == 3
    sentence = capsys.readouterr().out.splitlines()[0]
    assert sentence.startswith("train.py does not fit on 600 MiB: it takes about ")
    assert "with PyTorch as it is" in sentence
    assert "what it takes with pgmo is known by a rehearsal only" in sentence
