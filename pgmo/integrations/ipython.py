"""The cell magic `%%pgmo`: one session for the training loop of one notebook cell.

    %load_ext pgmo

    %%pgmo --save plans
    for batch in loader:
        model(batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

Each step of an optimizer ends an iteration (of several that take turns, the last one's). A cell
that names the session ends its iterations itself. IPython is imported here and nowhere else.
"""

import argparse
import ast
import shlex
import sys
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn
from weakref import WeakSet

from pgmo.allocator.optimize import optimize
from pgmo.errors import OptionError
from pgmo.runner.step_pattern import StepPattern

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAME = "session"
"""What the session is called in the notebook, unless the magic says otherwise."""


def load(shell: Any) -> None:
    """Registers the magic with a running IPython; `%load_ext pgmo` calls it."""

    def pgmo(line: str, cell: str) -> None:
        run_cell(shell, line, cell)

    pgmo.__doc__ = _parser().format_help()
    shell.register_magic_function(pgmo, magic_kind="cell", magic_name="pgmo")


def run_cell(shell: Any, line: str, cell: str) -> None:
    """Runs a cell within a session of its own, and shows what that was good for.

    The session stays in the notebook under its name, closed, with its plan and its profile.

    Args:
        shell: the running IPython.
        line: what follows `%%pgmo`.
        cell: the lines below it.

    Raises:
        OptionError: when the line cannot be read.
        SessionError: when a session is open already.
    """
    from IPython.display import display

    chosen = _parser().parse_args(_words(line))
    marks = _names(cell, chosen.name)
    # Taggers add and remove hooks of optimizers, in the midst of a step that calls these.
    session = optimize(device=chosen.device, plan=chosen.plan, save=chosen.save, tags=marks)
    shell.user_ns[chosen.name] = session
    with session:
        if marks:
            shell.run_cell(cell)
        else:
            with _ended_by_steps(session.step):
                shell.run_cell(cell)
    display(session.summary())  # type: ignore[no-untyped-call]


class _Parser(argparse.ArgumentParser):
    """Raises instead of ending the notebook's kernel."""

    def error(self, message: str) -> NoReturn:
        raise OptionError(f"%%pgmo: {message}; the options are those of `%%pgmo?`")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="%%pgmo", add_help=False, description="A pgmo session for this cell.")
    parser.add_argument("--device", help="cpu, cuda or cuda:N (default: CUDA where there is one)")
    parser.add_argument("--plan", metavar="FILE", help="begin with a saved plan")
    parser.add_argument("--save", metavar="DIR", help="where the profile and the plan are saved")
    parser.add_argument(
        "--name",
        default=_NAME,
        help=f"the session's in the notebook (default: {_NAME}); a cell that uses it calls "
        "step() or iteration() itself, else each step of an optimizer ends an iteration",
    )
    return parser


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        raise OptionError(f"%%pgmo: {line!r} cannot be read: {error}") from error


def _names(cell: str, name: str) -> bool:
    """Whether the cell uses a variable; one with magics of its own in it is not Python alone."""
    try:
        tree = ast.parse(cell)
    except SyntaxError:
        return name in cell
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(tree))


@contextmanager
def _ended_by_steps(end: Callable[[], None]) -> "Iterator[None]":
    """Calls `end` whenever the optimizers of PyTorch that take turns have all stepped."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        import torch  # the cell may be the first that does
    from torch.optim.optimizer import register_optimizer_step_post_hook

    pattern = StepPattern()
    seen: WeakSet[Any] = WeakSet()  # nobody waits for one that has gone

    def stepped(optimizer: Any, _arguments: object, _keywords: object) -> None:
        seen.add(optimizer)
        if pattern.ends_iteration(id(optimizer), set(map(id, seen))):
            end()

    handle = register_optimizer_step_post_hook(stepped)
    try:
        yield
    finally:
        handle.remove()
