"""Conversion of a memory snapshot's call stacks into tags.

at::_ops::addmm::call(...)            op      aten.addmm
forward      torch/nn/.../linear.py   phase   forward: a module is being called
forward      /home/me/model.py:54     file    model.py:54 in forward
<module>     /home/me/train.py:12     stack   linear.py:134 in forward, model.py:54 in forward ...
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from pgmo.archive.fields import as_text
from pgmo.profiler.tag import Tag

T = TypeVar("T")

MOST_LINES = 64
"""Maximum number of Python lines that a tag keeps; lines in the middle are left out."""

_OUTERMOST = 16  # Number of outermost calls that a shortened stack keeps. They show its purpose.

# Maximum number of characters of a path and a name. A snapshot may refer to a line in two bytes,
# but a profile contains the text of the line for each stack.
_MOST_PATH = 50
_MOST_NAME = 50

_PYTHON = (".py", ".pyx", ".ipynb")
_LIBRARY = re.compile(
    r"(?:^|/)(?:site-packages|dist-packages|torch/(?:nn|optim|autograd|utils|_\w+|cuda|amp)|"
    r"lib/python3\.\d+)/|^<frozen "
)
_OPERATOR = re.compile(r"at::_ops::(\w+)::(?:call|redispatch)\b")
# Operators that allocate a tensor for another operator.
_FACTORY = re.compile(r"aten\.(?:(?:new_)?(?:empty|zeros)|resize_)")
_OVERLOAD = re.compile(
    r"(?:_(?:[A-Z]\w*|out|memory_format|dim|int|self|correction|start(?:_step)?|reduce|value|"
    r"grad_input|using_ints|names|names_out|default|dtype|no_stats|vec))+$"
)
_ENGINE = ("torch::autograd::Engine::", "torch::autograd::python::PythonEngine::")


class Frame(NamedTuple):
    """Call in a stack: function, file and line."""

    name: str
    file: str
    line: int

    @property
    def is_python(self) -> bool:
        """Return whether the call is of Python code, according to its file name and line."""
        name = self.file.rsplit("/", 1)[-1]
        if name.endswith(_PYTHON) or name.startswith("<"):
            return True
        # Python scripts may lack a suffix, such as torchrun; C++ and assembler sources have one.
        return self.line > 0 and "." not in name and name not in ("", "??")


class Labels:
    """Short file names: the last part of the path, or two if one is ambiguous or `__init__.py`."""

    def __init__(self, frames: Iterable[Frame]) -> None:
        users: dict[str, set[str]] = defaultdict(set)
        for frame in frames:
            if frame.is_python:
                users[_parts(frame.file, 1)].add(frame.file)
        self._ambiguous = {name for name, files in users.items() if len(files) > 1}
        self._known: dict[Frame, CallFacts] = {}

    def line(self, frame: Frame) -> str:
        """Return a frame in the form of `Tag.file`."""
        short = _parts(frame.file, 1)
        if short in self._ambiguous or short == "__init__.py":
            short = _parts(frame.file, 2)
        return as_text(f"{short[-_MOST_PATH:]}:{frame.line} in {frame.name[:_MOST_NAME]}")

    def facts(self, frame: Frame) -> "CallFacts":
        """Return the facts of a frame, cached because stacks share most frames."""
        known = self._known.get(frame)
        if known is None:
            known = self._known[frame] = self._facts(frame)
        return known

    def _facts(self, frame: Frame) -> "CallFacts":
        found = _OPERATOR.search(frame.name)
        phase = ""
        if "torch/optim/" in frame.file:
            phase = "optimizer"
        elif frame.name == "_engine_run_backward" or frame.name.startswith(_ENGINE):
            phase = "backward"
        # Other functions of torch/nn/modules, such as __init__, create or move modules.
        elif frame.name == "_call_impl" or (
            frame.name == "forward" and "torch/nn/modules/" in frame.file
        ):
            phase = "forward"
        return CallFacts(
            line=self.line(frame) if frame.is_python else "",
            own=frame.is_python and not _LIBRARY.search(frame.file),
            operator=_OVERLOAD.sub("", f"aten.{found[1][:_MOST_NAME]}") if found else "",
            phase=phase,
        )


class CallFacts(NamedTuple):
    """Facts about one call; empty if unknown.

    `line` has the form of `Tag.file` for Python calls. `own` is true for the user's code, and false
    for a library's code.
    """

    line: str = ""
    own: bool = False
    operator: str = ""
    phase: str = ""


def shortened(stack: Sequence[T], most: int) -> Sequence[T]:
    """Return at most `most` calls of a stack, with calls in the middle removed.

    Example:
        >>> shortened(range(100), 20)
        [0, 1, 2, 3, 84, 85, 86, 87, 88, 89, 90, 91, 92, 93, 94, 95, 96, 97, 98, 99]
    """
    return stack if len(stack) <= most else [*stack[: most - _OUTERMOST], *stack[-_OUTERMOST:]]


def tag_of(stack: Sequence[Frame], labels: Labels) -> Tag:
    """Return the tag of one stack of calls.

    In a snapshot without C++ frames, the operator is unknown, and a request of autograd's engine
    thread has an empty stack. So an empty stack counts as backward, because few other threads
    allocate.
    """
    if not stack:
        return Tag("", "", "backward")
    calls = [labels.facts(frame) for frame in stack]
    operators = [own.operator for own in calls if own.operator]
    # Take the innermost operator that does more than allocate a tensor, else the outermost one.
    op = next((name for name in operators if not _FACTORY.match(name)), (operators or [""])[-1])
    phases = [own.phase for own in calls if own.phase]
    decided = next((phase for phase in phases if phase != "forward"), "")
    lines = [own.line for own in calls if own.line]
    file = next((own.line for own in calls if own.own), "")
    phase = decided or (phases or ["other"])[0]
    return Tag("", op, phase, file, tuple(shortened(lines, MOST_LINES)))


def _parts(file: str, count: int) -> str:
    return "/".join(file.replace("\\", "/").rsplit("/", count)[-count:])
