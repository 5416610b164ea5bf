"""Turns a stack of calls from a memory snapshot into a tag.

at::_ops::addmm::call(...)            op      aten.addmm
forward      torch/nn/.../linear.py   phase   forward: a module is being called
forward      /home/me/model.py:54     file    model.py:54 in forward
<module>     /home/me/train.py:12     stack   linear.py:134 in forward, model.py:54 in forward ...
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pgmo.profiler.tag import Tag

MOST_LINES = 64
"""Lines of Python that a tag keeps."""

_OUTERMOST = 16
"""Of a longer stack so many are the outermost ones: they tell what one call made."""

_PYTHON = (".py", ".pyx", ".ipynb")
_LIBRARY = re.compile(
    r"(?:^|/)(?:site-packages|dist-packages|torch/(?:nn|optim|autograd|utils|_\w+|cuda|amp)|"
    r"lib/python3\.\d+)/|^<frozen "
)
_OPERATOR = re.compile(r"at::_ops::(\w+)::(?:call|redispatch)\b")
# Operators that only make an uninitialised tensor for another one to fill.
_FACTORY = re.compile(r"(?:new_)?empty|resize_")
_OVERLOAD = re.compile(
    r"(?:_(?:[A-Z]\w*|out|memory_format|dim|int|self|correction|start(?:_step)?|reduce|value|"
    r"grad_input|using_ints|names|names_out|default|dtype|no_stats|vec))+$"
)
_ENGINE = ("torch::autograd::Engine::", "torch::autograd::python::PythonEngine::")


class Frame(NamedTuple):
    """One call: the function, its file, the line."""

    name: str
    file: str
    line: int

    @property
    def is_python(self) -> bool:
        """Whether it is Python, going by its file: C++ has none, or one of its own."""
        name = self.file.rsplit("/", 1)[-1]
        if name.endswith(_PYTHON) or name.startswith("<"):
            return True
        # A script without a suffix, such as torchrun; sources of C++ and assembler have one.
        return self.line > 0 and "." not in name and name not in ("", "??")


class Labels:
    """Short names for files: the last part of the path, or the last two where one is not enough.

    Example:
        >>> labels = Labels([Frame("f", "/a/x/train.py", 1), Frame("g", "/a/y/train.py", 2)])
        >>> labels.line(Frame("f", "/a/x/train.py", 31))
        'x/train.py:31 in f'
    """

    def __init__(self, frames: Iterable[Frame]) -> None:
        users: dict[str, set[str]] = defaultdict(set)
        for frame in frames:
            if frame.is_python:
                users[_parts(frame.file, 1)].add(frame.file)
        self._ambiguous = {name for name, files in users.items() if len(files) > 1}

    def line(self, frame: Frame) -> str:
        """A frame in the form of `Tag.file`."""
        short = _parts(frame.file, 1)
        if short in self._ambiguous or short == "__init__.py":
            short = _parts(frame.file, 2)
        return f"{short}:{frame.line} in {frame.name}"


def tag_of(stack: Sequence[Frame], labels: Labels) -> Tag:
    """The tag of one stack of calls, innermost first.

    Without C++ frames there is no operator. Requests from the thread of the autograd engine then
    have no frames at all, and those count as backward, for hardly another thread allocates.

    Example:
        >>> stack = [Frame("at::_ops::add_Tensor::call(x)", "??", 0), Frame("f", "/me/a.py", 3)]
        >>> tag = tag_of(stack, Labels(stack))
        >>> tag.op, tag.phase, tag.file
        ('aten.add', 'other', 'a.py:3 in f')
    """
    python = [frame for frame in stack if frame.is_python]
    lines = shortened([labels.line(frame) for frame in python])
    own = next((frame for frame in python if not _LIBRARY.search(frame.file)), None)
    file = "" if own is None else labels.line(own)
    return Tag("", _operator(stack), _phase(stack), file, lines)


def shortened(lines: Sequence[str]) -> tuple[str, ...]:
    """At most `MOST_LINES` of a stack's lines, innermost first, without some in the middle.

    Example:
        >>> len(shortened(["a.py:1 in f"] * 300))
        64
    """
    if len(lines) <= MOST_LINES:
        return tuple(lines)
    return (*lines[: MOST_LINES - _OUTERMOST], *lines[-_OUTERMOST:])


def _operator(stack: Sequence[Frame]) -> str:
    """The innermost operator that does more than to make an empty tensor."""
    names = [found[1] for frame in stack if (found := _OPERATOR.search(frame.name))]
    if not names:
        return ""
    name = next((name for name in names if not _FACTORY.match(name)), names[0])
    return f"aten.{_OVERLOAD.sub('', name)}"


def _phase(stack: Sequence[Frame]) -> str:
    if not stack:
        return "backward"
    in_module = False
    for frame in stack:
        if "torch/optim/" in frame.file:
            return "optimizer"
        if frame.name == "_engine_run_backward" or frame.name.startswith(_ENGINE):
            return "backward"
        # Not what makes modules or moves them, __init__ and _apply, which is in the same files.
        called = frame.name == "forward" and "torch/nn/modules/" in frame.file
        in_module = in_module or called or frame.name == "_call_impl"
    return "forward" if in_module else "other"


def _parts(file: str, count: int) -> str:
    return "/".join(file.replace("\\", "/").rsplit("/", count)[-count:])
