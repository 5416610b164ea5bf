"""Check of wheels: install each wheel in an environment without a compiler, and train.

    python packaging/check_wheels.py --wheels dist --torch .venv/bin/python \
        --cuda .venv-fakecuda/bin/python --stub build/fakecuda --python python3.11

Each wheel and its dependencies are installed in a new environment of the wheel's Python version.
PyTorch comes from the environments of `--torch` and `--cuda`, if they have the same Python version.
The PATH has no compiler, and the cache is empty, so no adapter can be compiled. With `--torch`,
`pgmo doctor` runs, and `examples/resnet.py` trains without and with pgmo. Otherwise the script
plans a profile and writes a report. With `--cuda`, a loop trains on the stub runtime.
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
"""Files that `dist-info/licenses` of a wheel must contain."""

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
    """A wheel failed a check."""


@dataclass(frozen=True)
class Place:
    """A new environment with one wheel.

    Args:
        folder: the environment's folder.
    """

    folder: Path

    @property
    def python(self) -> Path:
        """Path of the environment's interpreter."""
        return self.folder / "bin" / "python"

    def run(self, *command: str, before: tuple[str, ...] = (), **more: str) -> str:
        """Run a program of the environment, by default with only the environment on the PATH.

        Args:
            command: name of the program, and its arguments.
            before: words that precede the program's path, such as the stub's `run`.
            more: further environment variables, which may replace PATH.

        Returns:
            Standard output of the command.

        Raises:
            WheelError: if the exit code is not 0.
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
        """Make a Python's packages importable; return False if it is None or of another version."""
        (found,) = self.folder.glob("lib/python*/site-packages")
        link = found / "torch-of-another.pth"
        link.unlink(missing_ok=True)
        if torch is None or version_of(torch) != version_of(str(self.python)):
            return False
        code = "import torch, pathlib; print(pathlib.Path(torch.__file__).parents[1])"
        link.write_text(output(torch, "-c", code) + "\n")
        return True


def check(wheel: Path, place: Place, torch: str | None, cuda: str | None, stub: Path) -> None:
    """Check one installed wheel, and print the results.

    Args:
        wheel: path of the wheel, which is installed in `place`.
        place: the environment.
        torch: a Python with PyTorch for the CPU; None without PyTorch.
        cuda: a Python with a CUDA build of PyTorch; None to leave out the CUDA loop.
        stub: the folder with the stub runtime's `run`.

    Raises:
        WheelError: at the first check that fails.
    """
    check_notices(wheel)
    prefix = f"PREFIX = {str(place.folder)!r}\n"
    if place.sees(torch):
        doctor = place.run("pgmo", "doctor")
        say("doctor", *pick(doctor, "compiler", "adapter", "pgmo works"))
        if "comes with pgmo" not in doctor or not re.search(r"^compiler +none", doctor, re.M):
            raise WheelError(f"doctor should find the wheel's adapter, and no compiler:\n{doctor}")
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
        raise WheelError("an adapter was compiled although no compiler is on the PATH")


def check_notices(wheel: Path) -> None:
    """Print licences and adapters of a wheel; raise a WheelError if one of `NOTICES` is missing."""
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
    """Return a folder that contains only `env`, which the stub's `run` needs."""
    tools = folder / "env-only"
    if not tools.exists():
        tools.mkdir()
        (tools / "env").symlink_to("/usr/bin/env")
    return tools


def pick(text: str, *words: str) -> Iterator[str]:
    """Return the lines of a text that contain any of the words."""
    return (line for line in text.splitlines() if any(word in line for word in words))


def say(what: str, *lines: str) -> None:
    """Print lines under a heading."""
    print(f"  {what:<10}", *("\n             ".join(lines),), flush=True)


def output(*command: str) -> str:
    """Run a command, and return its standard output without surrounding whitespace."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def version_of(python: str) -> str:
    """Return the tag of a Python's wheels, as in "cp311"."""
    return output(python, "-c", "import sys; print('cp%d%d' % sys.version_info[:2])")


def main() -> int:
    """Check all wheels for which a Python was given; return 1 if a check failed, otherwise 0."""
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
            say("not tried", "no --python has its version")
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
