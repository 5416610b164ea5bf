"""Number of optimizer steps that a script will make, read from its stack during a step.

for epoch in range(args.epochs):         3          the loops around the current line of each
    for batch in loader:                 x 1,000    frame come from the script's source, their
        optimizer.step()                 = 3,000    lengths from its variables

A Trainer of transformers or Lightning has the number as an attribute.
"""

import ast
import inspect
import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import Any

Loop = ast.For | ast.While

_MIN_COUNT = 3
"""Minimum value, after five steps, of a variable that may count steps."""

_ENDS = ast.Break | ast.Return
_ORDERS = ast.Lt | ast.LtE | ast.Gt | ast.GtE | ast.Eq

_TRANSPARENT = frozenset({"enumerate", "tqdm", "trange", "track", "iter", "list", "sorted"})
"""Functions whose result has the length of their first argument."""

_COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
"""Loops inside an expression, whose length is unknown."""


def planned_steps(
    frame: FrameType | None, own: Callable[[str], str], done: int
) -> tuple[int, bool] | None:
    """Return the number of optimizer steps of a script, and whether it is exact; None if unknown.

    Loops give an upper limit: they may end early, and with gradient accumulation an iteration may
    make no step.

    Args:
        frame: frame of the current step.
        own: returns the real path of a file of the script; "" for other files.
        done: steps that the script has made.
    """
    most = 1.0
    found_loop = False
    limits: dict[str, int] = {}
    while frame is not None:
        exact = _of_trainer(frame)
        if exact is not None:
            return exact, True
        if file := own(frame.f_code.co_filename):
            if _is_in_comprehension(file, frame):
                return None
            for loop in reversed(_loops_around(file, frame.f_lineno)):
                found_loop = True
                most = min([most, *_pop_reset(limits, _set_in(loop))])
                most *= min([_length(loop, frame), *_limits_of_variable(loop, frame)])
                limits |= _limits_of_count(loop, frame, file, done)
            # A function's own counters begin again in each call.
            most = min([most, *_pop_reset(limits, _set_at_calls(frame))])
        elif found_loop and _is_library(frame):
            # A library may call a function of the script in a `for` loop over epochs. `while` loops
            # of libraries parse arguments. Library frames inside the script's loops belong to one
            # step.
            for loop in _loops_around(frame.f_code.co_filename, frame.f_lineno):
                if isinstance(loop, ast.For):
                    most *= _length(loop, frame)
        frame = frame.f_back
    most = min([most, *limits.values()])
    return (int(most), False) if found_loop and done <= most < math.inf else None


def _is_library(frame: FrameType) -> bool:
    """Return whether a frame runs an installed package other than pgmo."""
    package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    return package != "pgmo" and "site-packages" in Path(frame.f_code.co_filename).parts


def _of_trainer(frame: FrameType) -> int | None:
    """Return the steps of the Trainer whose method this frame runs; None if there is none."""
    trainer = frame.f_locals.get("self")
    module = type(trainer).__module__.partition(".")[0]
    steps: Any = None
    if module == "transformers" or hasattr(trainer, "create_optimizer_and_scheduler"):
        steps = getattr(getattr(trainer, "state", None), "max_steps", None)
    elif module in ("lightning", "pytorch_lightning"):
        inner = getattr(trainer, "trainer", None)
        steps = getattr(inner, "estimated_stepping_batches", None)
    return int(steps) if isinstance(steps, int | float) and 0 < steps < math.inf else None


@lru_cache(maxsize=64)
def _tree(file: str) -> ast.AST | None:
    try:
        return ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None


def _loops_around(file: str, line: int) -> list[Loop]:
    """Return the loops around a line, within the innermost function that has the line."""
    inside: list[Loop] = []
    node = _tree(file)
    while node is not None:
        following = next((one for one in ast.iter_child_nodes(node) if _covers(one, line)), None)
        if isinstance(following, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            inside = []
        elif isinstance(following, ast.For | ast.While):
            inside.append(following)
        node = following
    return inside


def _is_in_comprehension(file: str, frame: FrameType) -> bool:
    """Return whether a comprehension repeats the current instruction of a frame.

    Since Python 3.12 list comprehensions have no frame of their own, so source columns decide.
    Without columns, as with `-X no_debug_ranges`, a comprehension on the current line is enough.
    """
    places = list(frame.f_code.co_positions())
    line, end_line, column, end_column = places[frame.f_lasti // 2]
    if None in (line, end_line, column, end_column):
        line = end_line = frame.f_lineno
        column = end_column = None

    def contains(node: ast.expr) -> bool:
        if column is None:
            return _covers(node, frame.f_lineno)
        begin, end = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
        return begin <= (line, column) and (end_line, end_column) <= end

    return any(
        contains(node) and not contains(node.generators[0].iter)
        for node in ast.walk(_tree(file) or ast.Pass())
        if isinstance(node, _COMPREHENSIONS)
    )


def _covers(node: ast.AST, line: int) -> bool:
    return getattr(node, "lineno", line + 1) <= line <= (getattr(node, "end_lineno", None) or 0)


def _length(loop: Loop, frame: FrameType) -> float:
    """Return the number of iterations of a `for` loop; infinity if unknown, and for `while`."""
    if isinstance(loop, ast.While):
        return math.inf
    try:
        return _length_of(loop.iter, frame)
    except Exception:  # the script's own objects may raise anything
        return math.inf


def _length_of(node: ast.expr, frame: FrameType) -> float:
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        name = node.func.id if isinstance(node.func, ast.Name) else name
        if name in ("range", "trange"):
            return len(range(*(int(_value(one, frame)) for one in node.args)))
        if name == "islice" and len(node.args) == 2:
            return float(_value(node.args[1], frame))
        if name == "zip":
            return min(_length_of(one, frame) for one in node.args)
        if name in _TRANSPARENT and node.args:
            return _length_of(node.args[0], frame)
        return math.inf
    return float(len(_value(node, frame)))


def _limits_of_variable(loop: Loop, frame: FrameType) -> Iterator[int]:
    """Yield the values of a `for` loop's variable at which it ends: N of `if step > N: break`."""
    if isinstance(loop, ast.For):
        own = {one.id for one in ast.walk(loop.target) if isinstance(one, ast.Name)}
        for name, _, limit in _comparisons(loop, frame):
            if name in own:
                yield limit


def _limits_of_count(loop: Loop, frame: FrameType, file: str, done: int) -> dict[str, int]:
    """Return, for each counter, the number of steps at which a test of the counter ends a loop.

    Variables that no code adds to, or that the loop resets, count no steps. For example, a loop
    resets the number of epochs without a better loss.
    """
    none = _set_in(loop)
    if isinstance(loop, ast.For):
        none |= {one.id for one in ast.walk(loop.target) if isinstance(one, ast.Name)}
    limits: dict[str, int] = {}
    for name, count, limit in _comparisons(loop, frame):
        if name not in none and count >= _MIN_COUNT and _is_counter(name, file):
            # The variable may count micro-batches.
            most = max(done, math.ceil(limit * done / max(count, done)))
            limits[name] = min(most, limits.get(name, most))
    return limits


def _is_counter(name: str, file: str) -> bool:
    """Return whether a name is a length, or a file adds to a variable or attribute of this name."""
    last = name.rpartition(".")[2]
    for node in ast.walk(_tree(file) or ast.Pass()):
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            added = ast.unparse(node.target)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp):
            added = ast.unparse(node.targets[0])
        else:
            continue
        if added.rpartition(".")[2] == last:
            return True
    return name.startswith("len(")


def _set_in(loop: Loop) -> set[str]:
    """Return the variables that a loop resets, and their lengths: "x" and "len(x)"."""
    names: set[str] = set()
    for node in ast.walk(loop):
        if isinstance(node, ast.Assign) and not isinstance(node.value, ast.BinOp):
            for target in node.targets:
                inner = target.elts if isinstance(target, ast.Tuple) else [target]
                names |= {ast.unparse(one) for one in inner}
    return names | {f"len({name})" for name in names}


def _set_at_calls(frame: FrameType) -> set[str]:
    """Return the local variables of a frame, which each call resets, and their lengths."""
    code = frame.f_code
    if not code.co_flags & inspect.CO_OPTIMIZED:
        return set()
    arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    names = {*code.co_varnames, *code.co_cellvars} - set(arguments)
    return names | {f"len({name})" for name in names}


def _pop_reset(limits: dict[str, int], names: set[str]) -> list[int]:
    """Remove the limits of some counters, and return the removed limits."""
    return [limits.pop(name) for name in names & limits.keys()]


def _comparisons(loop: Loop, frame: FrameType) -> Iterator[tuple[str, int, int]]:
    """Yield name, value and limit of each variable whose comparison ends the loop."""
    tests = [loop.test] if isinstance(loop, ast.While) else []
    for one in _inside(loop):
        if isinstance(one, ast.If) and any(isinstance(end, _ENDS) for end in one.body):
            tests.append(one.test)
    for test in tests:
        if not isinstance(test, ast.Compare) or len(test.ops) != 1:
            continue
        if not isinstance(test.ops[0], _ORDERS):
            continue
        try:
            count, limit = _value(test.left, frame), _value(test.comparators[0], frame)
        except Exception:  # the script's own objects may raise anything
            continue
        if isinstance(count, int) and isinstance(limit, int | float) and count <= limit < math.inf:
            yield ast.unparse(test.left), count, math.ceil(limit)


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes inside a loop, except the nodes inside nested loops and functions."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, Loop | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _inside(child)


def _value(node: ast.expr, frame: FrameType) -> Any:
    """Evaluate names, attributes, items, constants and arithmetic; raise an error otherwise."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return frame.f_locals[node.id] if node.id in frame.f_locals else frame.f_globals[node.id]
    if isinstance(node, ast.Attribute):
        return getattr(_value(node.value, frame), node.attr)
    if isinstance(node, ast.Subscript):
        return _value(node.value, frame)[_value(node.slice, frame)]
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left, frame), _value(node.right, frame)
        return _OPERATIONS[type(node.op)](left, right)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 1:
        return _CALLS[node.func.id](_value(node.args[0], frame))
    raise ValueError("no plain expression")


_CALLS: dict[str, Callable[[Any], Any]] = {"len": len, "int": int}

_OPERATIONS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Div: lambda a, b: a / b,
}
