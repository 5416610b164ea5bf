"""Finds the definition of a function in source code, and adds a decorator to it."""

import ast
from collections.abc import Iterator
from types import CodeType

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def decorate(source: bytes, path: str, name: str, decorator: str) -> CodeType | None:
    """Compile source code after adding an innermost decorator to each function of a name.

    Line and column numbers are unchanged.

    Returns:
        The code; None if no function has the name.

    Example:
        >>> code = decorate(b"def f(): return 1", "f.py", "f", "twice")
        >>> space = {"twice": lambda function: lambda: 2 * function()}
        >>> exec(code, space); space["f"]()
        2
        >>> decorate(b"f = 1", "f.py", "f", "twice")
    """
    tree = ast.parse(source, path)
    found = [one for known, one in _definitions(tree.body) if known == name]
    for function in found:
        place = ast.Name(decorator, ast.Load())
        function.decorator_list.append(ast.copy_location(place, function))
    return compile(tree, path, "exec", dont_inherit=True) if found else None


def functions_of(source: bytes, path: str) -> list[str]:
    """Return the names of the functions and methods of source code, except nested functions."""
    return list(dict.fromkeys(name for name, _ in _definitions(ast.parse(source, path).body)))


def _definitions(body: list[ast.stmt], within: str = "") -> Iterator[tuple[str, _Function]]:
    """Yield functions with their names, also in `if`, `try` and `match`, but not in functions."""
    for one in body:
        if isinstance(one, _Function):
            yield within + one.name, one
        elif isinstance(one, ast.ClassDef):
            yield from _definitions(one.body, f"{within}{one.name}.")
        else:
            for part in ("body", "orelse", "finalbody"):
                yield from _definitions(getattr(one, part, []), within)
            for branch in (*getattr(one, "handlers", ()), *getattr(one, "cases", ())):
                yield from _definitions(branch.body, within)
