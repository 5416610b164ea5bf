"""Installs each wheel where no compiler can be found, and trains: what a new user has.

    python packaging/check_wheels.py --wheels dist --torch .venv/bin/python \
        --cuda .venv-fakecuda/bin/python --stub build/fakecuda --python python3.11

Each wheel goes into a fresh environment of the Python that it was made for, with its dependencies.
PyTorch is not installed again: the environment sees that of another one, where that is of the same
version of Python. The PATH has the environment alone, and the cache is empty, so an adapter that
does not come with the wheel cannot be made. Then `pgmo doctor` runs, `examples/resnet.py`
trains without and with pgmo, and a loop trains on the CUDA build of PyTorch over the stub runtime.
A wheel of a Python without PyTorch plans and writes a report instead.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

NOTICES = ("LICENSE", "uPlot.LICENSE", "pybind11.LICENSE")
"""What `dist-info/licenses` has to hold."""

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "resnet.py"

LOOP = """
import torch, pgmo
from torch import nn

net = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 1024)).cuda()
optimizer = torch.optim.Adam(net.parameters())
with pgmo.optimize() as session:
    for _ in range(10):
        with session.iteration():
            net(torch.randn(64, 1024, device="cuda")).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
summary = session.summary()
assert pgmo.__file__.startswith(PREFIX), pgmo.__file__
assert summary.replayed > 0, str(summary)
print(f"torch {torch.__version__}: {summary.replayed} iterations replayed")
"""

PROFILE = """
import pgmo
assert pgmo.__file__.startswith(PREFIX), pgmo.__file__
profile = pgmo.Profile.from_columns(size=[64, 32], start=[0, 1], end=[2, 3], ticks=2)
profile.save("small.pgmoprof")
print(pgmo.plan(profile).arena)
"""


class WheelError(Exception):
    """A wheel that does not do what it has to."""


@dataclass(frozen=True)
class Place:
    """A fresh environment with one wheel.

    Args:
        folder: of the environment.
    """

    folder: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    def run(self, *command: str, before: tuple[str, ...] = (), **more: str) -> str:
        """Runs a command with nothing but the environment on the PATH.

        Args:
            command: its first word is a program of the environment.
            before: what starts the command, such as the stub's `run`.
            more: further environment variables.

        Returns:
            What it printed.

        Raises:
            WheelError: when its exit code is not 0.
        """
        tools = self.folder / "bin"
        environment = {
            "PATH": str(tools),
            "HOME": str(self.folder),
            "PGMO_CACHE_DIR": str(self.folder / "cache"),
            **more,
        }
        whole = [*before, str(tools / command[0]), *command[1:]]
        done = subprocess.run(
            whole, env=environment, cwd=self.folder, capture_output=True, text=True, check=False
        )
        if done.returncode:
            shown = " ".join(word if "\n" not in word else "..." for word in whole)
            raise WheelError(f"{shown} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def sees(self, torch: str | None) -> bool:
        """Puts another environment's packages behind its own; False where that cannot serve it."""
        (found,) = self.folder.glob("lib/python*/site-packages")
        link = found / "torch-of-another.pth"
        link.unlink(missing_ok=True)
        if torch is None or version_of(torch) != version_of(str(self.python)):
            return False
        code = "import torch, pathlib; print(pathlib.Path(torch.__file__).parents[1])"
        link.write_text(output(torch, "-c", code) + "\n")
        return True


def check(wheel: Path, place: Place, torch: str | None, cuda: str | None, stub: Path) -> None:
    """Tries what a new user would, and prints what came out.

    Args:
        wheel: installed in the environment.
        place: the environment.
        torch: a Python with PyTorch for the CPU.
        cuda: a Python with a CUDA build of PyTorch.
        stub: the folder with the stub runtime's `run`.

    Raises:
        WheelError: at the first thing that does not work.
    """
    check_notices(wheel)
    prefix = f"PREFIX = {str(place.folder)!r}\n"
    if place.sees(torch):
        doctor = place.run("pgmo", "doctor")
        say("doctor", *pick(doctor, "compiler", "adapter", "pgmo works"))
        if "comes with pgmo" not in doctor or not re.search(r"^compiler +none", doctor, re.M):
            raise WheelError(f"the wheel should bring the adapter, with no compiler:\n{doctor}")
        trained = place.run("python", str(EXAMPLE))
        say("training", *pick(trained, "arena", "losses and weights"))
    else:
        say("plan", place.run("python", "-c", prefix + PROFILE).strip())
        place.run("pgmo", "report", "small.pgmoprof")
        say("report", f"{(place.folder / 'small.html').stat().st_size} bytes")
    if place.sees(cuda):
        start = ("/bin/sh", str(stub.resolve() / "run"))
        code = prefix + LOOP
        usual = {"PATH": f"{place.folder / 'bin'}:{only_env(place.folder)}"}
        say("cuda loop", place.run("python", "-c", code, before=start, **usual).strip())
    if (place.folder / "cache").exists() and list((place.folder / "cache").rglob("*.so")):
        raise WheelError("something was compiled, though no compiler should be found")


def check_notices(wheel: Path) -> None:
    """Looks for the licences of what is embedded."""
    names = zipfile.ZipFile(wheel).namelist()
    licences = [
        Path(name).name for name in names if ".dist-info/licenses/" in name and name[-1] != "/"
    ]
    missing = sorted(set(NOTICES) - set(licences))
    if missing:
        raise WheelError(f"{wheel.name} has no {', '.join(missing)} in dist-info/licenses")
    say("licences", ", ".join(licences))
    say(
        "adapters",
        *(Path(name).name for name in names if "/_prebuilt/" in name and name[-1] == "o"),
    )


def only_env(folder: Path) -> Path:
    """A folder with `env`, which the stub's `run` needs, and nothing else."""
    tools = folder / "env-only"
    if not tools.exists():
        tools.mkdir()
        (tools / "env").symlink_to("/usr/bin/env")
    return tools


def pick(text: str, *words: str) -> Iterator[str]:
    """The lines that have one of some words."""
    return (line for line in text.splitlines() if any(word in line for word in words))


def say(what: str, *lines: str) -> None:
    """Prints what was found."""
    print(f"  {what:<10}", *("\n             ".join(lines),), flush=True)


def output(*command: str) -> str:
    """What a command prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def version_of(python: str) -> str:
    """The tag of its wheels, as in "cp311"."""
    return output(python, "-c", "import sys; print('cp%d%d' % sys.version_info[:2])")


def main() -> int:
    """Checks all wheels that have a Python here; the exit code says whether all work."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--wheels", type=Path, default=Path("dist"))
    parser.add_argument("--python", action="append", default=[], help="may be given several times")
    parser.add_argument("--torch", help="a Python with PyTorch for the CPU")
    parser.add_argument("--cuda", help="a Python with a CUDA build of PyTorch")
    parser.add_argument("--stub", type=Path, default=Path("build/fakecuda"))
    given = parser.parse_args()
    pythons = {version_of(python): python for python in given.python or [sys.executable]}
    wheels = sorted(given.wheels.glob("*.whl"))
    if not wheels:
        parser.error(f"{given.wheels} has no wheel; make them with `make wheels`")
    failed = 0
    for wheel in wheels:
        print(f"{wheel.name}  {wheel.stat().st_size / 2**20:.2f} MiB", flush=True)
        python = pythons.get(wheel.name.split("-")[2])
        if python is None:
            say("not tried", "no --python for it")
            continue
        with tempfile.TemporaryDirectory(prefix="pgmo-wheel-") as name:
            place = Place(Path(name).resolve() / "venv")
            output(python, "-m", "venv", str(place.folder))
            output(str(place.python), "-m", "pip", "install", "--quiet", str(wheel))
            try:
                check(wheel, place, given.torch, given.cuda, given.stub)
            except WheelError as error:
                failed += 1
                say("FAILED", str(error))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
