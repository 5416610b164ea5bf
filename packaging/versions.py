"""Training with several versions of PyTorch, each in a new environment, and a table of results.

    python packaging/versions.py 2.6.0 2.13.0 newest

Each version is downloaded, which takes gigabytes if the package index has CUDA builds. Its
environment is in a temporary folder (set TMPDIR to choose where), which is removed before the next
version. The program trains on the CPU without pgmo and under pgmo.optimize. Both runs must give the
same losses.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NEWEST = "newest"

PROGRAM = """
import json, torch, pgmo
from torch import nn

def train(session):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 8))
    optimizer = torch.optim.Adam(net.parameters())
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        loss = net(torch.randn(32, 64)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        del loss
        if session is not None:
            session.step()
    return losses

plain = train(None)
with pgmo.optimize(device="cpu") as session:
    served = train(session)
assert plain == served, "the losses differ"
summary = session.summary()
assert summary.replayed > 0, str(summary)
print(json.dumps({"torch": torch.__version__, "replayed": summary.replayed}))
"""


@dataclass(frozen=True)
class Outcome:
    """Result of one version.

    Args:
        version: version as given on the command line.
        installed: installed version. If the program failed: the requirement, as in "torch==2.6.0".
            "" if the installation failed.
        result: "works", or the last line of the error.
    """

    version: str
    installed: str
    result: str


def build(folder: Path) -> Path:
    """Build a wheel of this checkout in a folder, and return its path.

    Raises:
        SystemExit: if the build fails, with the last line of the error.
    """
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", str(ROOT)]
    done = subprocess.run(
        [*command, "--wheel-dir", str(folder)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"pgmo could not be built: {last_line(done.stderr)}")
    return next(folder.glob("pgmo-*.whl"))


def attempt(version: str, wheel: Path, folder: Path) -> Outcome:
    """Install pgmo and one version of PyTorch in a new environment, and train."""
    venv = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    python = str(venv / "bin" / "python")
    wanted = "torch" if version == NEWEST else f"torch=={version}"
    options = ["--quiet", "--no-cache-dir", "--no-compile"]  # Compiling all of torch takes minutes.
    install = [python, "-m", "pip", "install", *options, str(wheel), wanted]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode:
        return Outcome(version, "", f"not installed: {last_line(done.stderr)}")
    done = subprocess.run(
        [python, "-c", PROGRAM], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        return Outcome(version, wanted, last_line(done.stderr))
    return Outcome(version, json.loads(done.stdout.splitlines()[-1])["torch"], "works")


def last_line(text: str) -> str:
    """Return the last line of an error's text; "no message" if the text is empty."""
    return (text.strip().splitlines() or ["no message"])[-1]


def table(outcomes: list[Outcome]) -> str:
    """Return the Markdown table of `docs/installation.md`.

    Example:
        >>> print(table([Outcome("2.6.0", "2.6.0+cu124", "works")]))
        | PyTorch | installed | result |
        | --- | --- | --- |
        | 2.6.0 | 2.6.0+cu124 | works |
    """
    rows = ["| PyTorch | installed | result |", "| --- | --- | --- |"]
    rows += [f"| {one.version} | {one.installed} | {one.result} |" for one in outcomes]
    return "\n".join(rows)


def main() -> int:
    """Try all versions, and print the table; return 0 if all work, otherwise 1."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("versions", nargs="+", help=f"such as 2.6.0, or {NEWEST!r}")
    versions = parser.parse_args().versions
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="pgmo-wheel-") as built:
        wheel = build(Path(built))
        for version in versions:
            folder = Path(tempfile.mkdtemp(prefix="pgmo-versions-"))
            try:
                outcomes.append(attempt(version, wheel, folder))
            finally:
                shutil.rmtree(folder, ignore_errors=True)
            print(f"{version}: {outcomes[-1].result}", file=sys.stderr, flush=True)
    print(table(outcomes))
    return 0 if all(one.result == "works" for one in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
