"""Trial of an input with commands of pgmo, which succeed or raise a `PgmoError`."""

import contextlib
import io
import warnings
from pathlib import Path

from pgmo.cli.parser import build_parser
from pgmo.errors import PgmoError
from pgmo.packing.plan import Plan
from pgmo.profiler.profile import Profile
from tests.fuzz.inputs import Input

_EXPORTS = ("csv", "perfetto")
_CHOSEN: tuple[tuple[str, ...], ...] = (
    *[()] * 4,
    ("--whole",),
    ("--iteration", "0"),
    ("--iteration", "-1"),
    ("--device", "-1"),
)
_PLAN = ("--solver", "best-fit", "--threads", "1", "-f")


class WrongError(Exception):
    """An error of pgmo, such as a written file that it does not read."""


class Trial:
    """Runner of commands of `pgmo` on inputs, in this process.

    Args:
        folder: folder for the files of the current input.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._parser = build_parser()
        self.said = ""  # message of the last error

    def run(self, given: Input) -> str:
        """Run commands on an input, and on the files that they write.

        Returns:
            "read" or "refused".

        Raises:
            Exception: pgmo has a bug, as it may raise only a `PgmoError`.
        """
        for old in self._folder.iterdir():
            old.unlink()
        path = self._folder / f"input{given.suffix}"
        path.write_bytes(given.data)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._read(given, path)
        except PgmoError as error:
            message = str(error)
            if len(message) > 5000:
                raise WrongError(f"a message of {len(message)} characters") from error
            self.said = message
            return "refused"
        return "read"

    def _read(self, given: Input, path: Path) -> None:
        if given.kind in ("profile", "plan"):
            self._archive(given, path)
            return
        made = self._folder / "made.pgmoprof"
        if given.kind == "table" and given.number % 2:
            self._run("plan", path, "-o", self._folder / "made.csv", *_PLAN)
            return
        options = ("--json",) if given.number % 3 else ()
        if given.kind == "snapshot":
            options += _CHOSEN[given.number // 3 % len(_CHOSEN)]
        self._run("export", path, "--to", "profile", "-o", made, "-f", *options)
        written = sorted(self._folder.glob("made*.pgmoprof"))
        if not written:
            raise WrongError("an import that succeeds writes nothing")
        for number, one in enumerate(written[:3], given.number):
            try:
                Profile.load(one)
            except PgmoError as error:
                raise WrongError(f"an import is refused afterwards: {error}") from error
            self._use(one, number)

    def _archive(self, given: Input, path: Path) -> None:
        read = Profile if given.kind == "profile" else Plan
        found = read.load(path)
        again = self._folder / f"again{given.suffix}"
        try:
            found.save(again)
            read.load(again)
        except PgmoError as error:
            raise WrongError(f"what was read cannot be saved and read again: {error}") from error
        if given.kind == "profile":
            self._use(path, given.number)
        else:
            command = ("stats", "export")[given.number % 2]
            self._run(command, path, *(self._to(given.number) if command == "export" else ()))

    def _use(self, path: Path, number: int) -> None:
        """Run a command on every fourth profile, as tables take long to draw."""
        if number % 4:
            return
        number //= 4
        what = number % 8
        if what == 0:
            self._run("stats", path, "--leaks")
        elif what == 1:
            self._run("compare", path, path)
        elif what == 2:
            self._run("stats", path, "--at-peak", "--by", ("module", "file", "size")[number % 3])
        elif what == 3:
            self._run("export", path, *self._to(number))
        elif what == 4:
            self._run("plan", path, "-o", self._folder / "made.pgmoplan", *_PLAN)
            self._run("stats", self._folder / "made.pgmoplan")
        elif what == 5 and number % 3:
            self._run("report", path, "-o", self._folder / "made.html", "-f")
        else:
            self._run("stats", path, *(("--json",) if what == 6 else ()))

    def _to(self, number: int) -> tuple[str | Path, ...]:
        kind = _EXPORTS[number // 8 % len(_EXPORTS)]
        return "--to", kind, "-f", "-o", self._folder / "exported"

    def _run(self, command: str, *arguments: str | Path) -> None:
        parsed = self._parser.parse_args([command, *map(str, arguments)])
        # As with a pipe, text that UTF-8 cannot encode is an error.
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            parsed.run(parsed)
            out.flush()
