"""Test that public functions and classes document each parameter, and the units of amounts."""

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Unpack, get_args, get_origin

import pytest

import pgmo

API = Path(__file__).resolve().parents[2] / "docs" / "reference" / "api.md"
DIRECTIVE = re.compile(r"^\.\. auto(function|class):: (\S+)$", re.MULTILINE)
RESULTS = re.findall(
    r"autoclass:: (\S+)\n(?:   :.*\n)*?   :exclude-members: __init__", API.read_text()
)
"""Classes that callers never construct."""
SECTION = re.compile(r"^(Args|Attributes|Keyword Args):\n((?: .*\n?|\n)+)", re.MULTILINE)
ENTRY = re.compile(r"^(    )\*{0,2}([\w, *`]+?)(?: \([^)]*\))?:(?: |$)", re.MULTILINE)

AMOUNT = re.compile(r"byte|size$|memory$|budget|limit|timeout|seconds|patience|deadline")
UNIT = re.compile(
    r"\bbytes?\b|\bseconds?\b|\bmicroseconds?\b|\b[KMGT]i?B\b|\biterations?\b|\bsamples?\b|"
    r"\bshape \(|\bwhether\b|\bcalled with\b|\bobject\b",
    re.IGNORECASE,
)
"""A unit, a shape, or a hint that the parameter is a switch or an object and not an amount."""


def resolve(name: str) -> Any:
    """Return the object of a dotted name."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            found = getattr(found, part)
        return found
    raise LookupError(name)


def public_callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the functions, classes and methods of the reference and of `pgmo.__all__`, by name."""
    names = {name for _, name in DIRECTIVE.findall(API.read_text())}
    names |= {f"pgmo.{name}" for name in pgmo.__all__ if callable(getattr(pgmo, name))}
    for name in sorted(names - {"pgmo.fit", "pgmo.recompute"}):  # callable packages, listed too
        found = resolve(name)
        if name not in RESULTS:
            yield name, found
        if inspect.isclass(found):
            for method, function in vars(found).items():
                function = getattr(function, "__func__", function)
                if not method.startswith("_") and inspect.isfunction(function):
                    yield f"{name}.{method}", function


def documented(docstring: str) -> dict[str, str]:
    """Return the entries of Args and Attributes, by name of the parameter.

    >>> documented("Do.\\n\\nArgs:\\n    a, b: bytes.\\n    c: more\\n        lines.\\n")
    {'a': 'bytes.', 'b': 'bytes.', 'c': 'more\\n        lines.'}
    """
    entries = {}
    for _, body in SECTION.findall(docstring):
        starts = list(ENTRY.finditer(body))
        for start, following in zip(starts, [*starts[1:], None], strict=True):
            text = body[start.end() : following.start() if following else len(body)].strip()
            for name in start[2].split(","):
                entries[name.strip(" *`")] = text
    return entries


def parameters(found: Callable[..., Any]) -> Iterator[str]:
    """Yield the names of the parameters, or of the keys of `**options: Unpack[Fields]`."""
    known = documented(inspect.getdoc(found) or "")
    for name, parameter in inspect.signature(found).parameters.items():
        if get_origin(parameter.annotation) is Unpack and name not in known:
            yield from get_args(parameter.annotation)[0].__annotations__
        elif name not in ("self", "cls") and not name.startswith("_"):
            yield name


def problems(found: Callable[..., Any]) -> Iterator[str]:
    """Yield what a docstring lacks."""
    docstring = inspect.getdoc(found) or ""
    if not docstring:
        yield "has no docstring"
    if inspect.isclass(found) and issubclass(found, BaseException):
        return
    if "The arguments are those of `" in docstring:
        return
    entries = documented(docstring)
    for name in parameters(found):
        if name not in entries:
            yield f"does not document {name}"
        elif AMOUNT.search(name) and not UNIT.search(entries[name]):
            yield f"gives no unit of {name}: {entries[name]!r}"


PUBLIC = dict(public_callables())


@pytest.mark.parametrize("name", PUBLIC)
def test_every_parameter_is_documented(name: str) -> None:
    assert not list(problems(PUBLIC[name]))


def test_omissions_are_found() -> None:
    def function(max_bytes: int, other: int) -> None:
        """Do something.

        Args:
            max_bytes: limit.
        """

    assert list(problems(function)) == [
        "gives no unit of max_bytes: 'limit.'",
        "does not document other",
    ]
