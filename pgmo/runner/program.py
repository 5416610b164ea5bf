"""Runs a script or a module as `python` would: same argv, path, `__main__` and exit code."""

import importlib.machinery
import importlib.util
import os
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import TYPE_CHECKING, NoReturn

from pgmo.errors import FileError
from pgmo.terminal import print_message

if TYPE_CHECKING:
    from pgmo.runner.step_on import StepOn


class _NoProgramError(FileError):
    """Error of pgmo itself, as opposed to a `FileError` that the program raises."""


@dataclass(frozen=True)
class Program:
    """Program to run.

    Args:
        target: path of a script, or of a directory or archive with a `__main__.py`; or a module's
            dotted name.
        is_module: whether the target is a module's name, as after `python -m`.
        arguments: the program's `sys.argv`, without the first entry.
    """

    target: str
    is_module: bool = False
    arguments: tuple[str, ...] = ()

    @classmethod
    def of(cls, command: Sequence[str]) -> "Program":
        """Create a program from a command, in a process that was started by `python -m`.

        Args:
            command: a script and its arguments, or "-m", a module and its arguments.
        """
        module = command[0] == "-m"
        target, *arguments = command[1:] if module else command
        # A module may be in the current directory, which `sys.path` lacks under safe_path.
        if module and os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())
        return cls(target, module, tuple(arguments))

    @property
    def name(self) -> str:
        """Short name, for files."""
        if self.is_module:
            return self.target.removesuffix(".__main__").rpartition(".")[2]
        return Path(os.path.abspath(self.target)).stem

    def check(self) -> None:
        """Raise `FileError` if the script does not exist; a module is not checked."""
        if not self.is_module and not os.path.exists(self.target):
            hint = ""
            if not self.target.endswith(".py") and not os.path.dirname(self.target):
                hint = f"; for a module, write -m {self.target}"
            raise FileError(f"there is no file {self.target}{hint}")

    def run(self, step_on: "StepOn | None" = None) -> "Ending":
        """Run the program to its end, as `__main__` of this process.

        An exception of the program is returned, not raised. Changes of `sys` are kept: threads and
        exit handlers of the program may need them.

        Args:
            step_on: finder of the function whose calls are iterations; None for none.

        Returns:
            The exit code, and the exception if there was one.

        Raises:
            FileError: if the module, or the directory's `__main__.py`, cannot be found or run.
        """
        sys.argv = [self.target, *self.arguments]
        try:
            # Tracebacks of the program begin in this block, even if compiling fails.
            code = self._load(step_on)
            if step_on is not None:
                step_on.attach()
            exec(code, sys.modules["__main__"].__dict__)
            _await_threads()
        except SystemExit as ended:
            return Ending(_exit_code(ended), None)
        except _NoProgramError:
            raise
        except BaseException as error:
            return Ending(130 if isinstance(error, KeyboardInterrupt) else 1, error)
        return Ending(0, None)

    def run_and_leave(self) -> NoReturn:
        """Run the program. Raise its exception, or exit with its exit code."""
        ending = self.run()
        if ending.error is not None:
            raise ending.error
        sys.exit(ending.code)

    def _load(self, step_on: "StepOn | None") -> CodeType:
        """Create `__main__` and return its code, or raise `FileError`."""
        if self.is_module:
            return self._load_module(step_on)
        if os.path.isdir(self.target) or self.target.endswith((".zip", ".pyz")):
            _set_first_path(os.path.abspath(self.target))
            spec = importlib.machinery.PathFinder.find_spec("__main__", [self.target])
            if spec is None:
                raise _NoProgramError(f"there is no __main__.py in {self.target}")
            return _code_of(spec, step_on)
        _set_first_path(os.path.dirname(os.path.realpath(self.target)))
        path = os.path.abspath(self.target)
        loader = importlib.machinery.SourceFileLoader("__main__", path)
        main = _new_main(path, loader)
        main.__dict__["__cached__"] = None
        source = Path(self.target).read_bytes()
        other = step_on.compile_script(source, path) if step_on is not None else None
        return other or compile(source, path, "exec", dont_inherit=True)

    def _load_module(self, step_on: "StepOn | None") -> CodeType:
        _set_first_path(os.getcwd())
        try:
            spec = importlib.util.find_spec(self.target)
            if spec is not None and spec.submodule_search_locations is not None:
                spec = importlib.util.find_spec(f"{self.target}.__main__")
        except ModuleNotFoundError as error:
            if error.name is None or not f"{self.target}.".startswith(f"{error.name}."):
                raise  # a parent package imports something that is missing
            spec = None
        if spec is None or spec.loader is None:
            raise _NoProgramError(
                f"there is no module {self.target} that can be run in the current directory or "
                "among Python's packages"
            )
        sys.argv[0] = spec.origin or self.target
        return _code_of(spec, step_on)


@dataclass(frozen=True)
class Ending:
    """Ending of a program.

    Args:
        code: the exit code that `python` would return; 130 for an interrupt.
        error: the uncaught exception; None if there was none.
    """

    code: int
    error: BaseException | None

    def show(self) -> None:
        """Print the exception as the interpreter does, from the program's first frame on."""
        if self.error is not None:
            error = self.error.with_traceback(_own_part(self.error.__traceback__))
            sys.excepthook(type(error), error, error.__traceback__)


def _own_part(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and trace.tb_frame.f_globals is globals():
        trace = trace.tb_next
    # The import of a module's parent package may have failed.
    while trace is not None and "importlib" in trace.tb_frame.f_code.co_filename:
        trace = trace.tb_next
    return trace


def _exit_code(ended: SystemExit) -> int:
    if ended.code is None:
        return 0
    if isinstance(ended.code, int):
        return ended.code
    print_message(str(ended.code))
    return 1


def _set_first_path(path: str) -> None:
    if sys.flags.safe_path:
        return  # With safe_path, `sys.path` has no entry for the script's folder.
    sys.path[:1] = [path]


def _code_of(spec: importlib.machinery.ModuleSpec, step_on: "StepOn | None") -> CodeType:
    """Create `__main__` from a module's spec and return its code, or raise `FileError`."""
    loader = spec.loader
    get_code = getattr(loader, "get_code", None)
    code = get_code(spec.name) if get_code else None
    if not isinstance(code, CodeType) or loader is None:
        raise _NoProgramError(f"{spec.name} has no Python code that could be run")
    main = _new_main(spec.origin or spec.name, loader)
    main.__spec__ = spec
    main.__package__ = spec.parent
    main.__dict__["__cached__"] = spec.cached
    get_source = getattr(loader, "get_source", None)
    source = get_source(spec.name) if get_source and step_on is not None else None
    if step_on is None or source is None:
        return code
    return step_on.compile_script(source.encode(), spec.origin or spec.name) or code


_replaced: list[ModuleType] = []
"""Earlier `__main__` modules. Their objects must stay alive while the program runs."""


def _new_main(path: str, loader: object) -> ModuleType:
    main = ModuleType("__main__")
    main.__file__ = path
    main.__loader__ = loader  # type: ignore[assignment]
    main.__dict__.update(__builtins__=sys.modules["builtins"], __annotations__={})
    _replaced.append(sys.modules["__main__"])
    sys.modules["__main__"] = main
    return main


def _await_threads() -> None:
    """Wait for the non-daemon threads, as the interpreter does after the program's last line."""
    own = threading.current_thread()
    while waited := [one for one in threading.enumerate() if not (one.daemon or one is own)]:
        waited[0].join()  # The thread may have started more threads.
