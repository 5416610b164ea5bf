"""Attribution of statements in inductor's generated code to kernels, and insertion of marks.

buf0 = empty_strided_cpu((16, 16), ...)      triton_poi_fused_gelu_0, the first user of buf0
triton_poi_fused_gelu_0.run(arg0, buf0, ...)
buf1 = extern_kernels.convolution(buf0, ...) extern_kernels.convolution
pool0 = empty_strided_cpu((4096, ), ...)     pool0: memory that inductor shares between buffers
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType
from typing import NamedTuple

MARKS = "_pgmo_marks"
"""Global name through which marked code calls `KernelMarks`."""

_ALLOCATES = "empty_strided"
_POOL = "pool"
_PASSES_ON = ("reinterpret_tensor", "alloc_from_pool")
_REQUESTS_NOTHING = ("assert_size_stride", "assert_alignment", "get_raw_stream", *_PASSES_ON)
_OPERATORS = "torch.ops."


class GeneratedKernel(NamedTuple):
    """Kernel that a statement of generated code belongs to: its name and the line that runs it."""

    name: str
    line: int


@dataclass(frozen=True)
class MarkedCode:
    """Generated code with a mark before each request; a mark's argument is an index into `kernels`.

    `plain` and `marked` are the functions' code without and with marks, by qualified name.
    """

    kernels: tuple[GeneratedKernel, ...]
    plain: dict[str, CodeType]
    marked: dict[str, CodeType]


def mark(source: str, path: str) -> MarkedCode:
    """Insert marks into the functions of a generated module that run kernels.

    The original statements keep their lines and are surrounded by

        _pgmo_marks.begin()
        try: ... _pgmo_marks.at(3) ...
        finally: _pgmo_marks.end()

    Raises:
        SyntaxError, ValueError: when the source is not Python.

    Example:
        >>> made = mark("def call(a): b = extern_kernels.mm(a, a); return b", "made.py")
        >>> made.kernels, list(made.marked)
        ((GeneratedKernel(name='extern_kernels.mm', line=1),), ['call'])
    """
    plain = compile(source, path, "exec", dont_inherit=True)
    tree = ast.parse(source, path)
    kernels: list[GeneratedKernel] = []
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and runs_kernels(node.name):
            names.add(node.name)
            _mark_function(node, kernels)
    marked = compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)
    return MarkedCode(tuple(kernels), _codes(plain, names), _codes(marked, names))


def runs_kernels(name: str) -> bool:
    """Return whether a function of a generated module runs kernels, according to its name."""
    return name == "call" or name.startswith("partition_")


def _codes(code: CodeType, names: set[str]) -> dict[str, CodeType]:
    found = {}
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            if inner.co_name in names:
                found[inner.co_qualname] = inner
            found.update(_codes(inner, names))
    return found


# --- attribution to kernels ----------------------------------------------------------------------


def _mark_function(function: ast.FunctionDef, kernels: list[GeneratedKernel]) -> None:
    about = _kernels_by_statement(function)

    def with_marks(body: list[ast.stmt]) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for statement in body:
            for inner in _bodies(statement):
                inner[:] = with_marks(inner)
            kernel = about.get(statement)
            if kernel is not None:
                made.append(_call("at", statement, ast.Constant(len(kernels))))
                kernels.append(kernel)
            made.append(statement)
        return made

    first, last = function.body[0], function.body[-1]
    watched = ast.Try(with_marks(function.body), [], [], [_call("end", last)])
    function.body = [_call("begin", first), ast.copy_location(watched, first)]


def _kernels_by_statement(function: ast.FunctionDef) -> dict[ast.stmt, GeneratedKernel]:
    """Return the kernel of each statement that may request memory."""
    statements = list(_in_order(function.body))
    own = {name.arg for name in function.args.args}
    own |= {name for statement in statements for name in _names(statement, ast.Store)}
    found: dict[ast.stmt, GeneratedKernel] = {}
    uses: dict[str, GeneratedKernel] = {}  # Next kernel that uses each buffer.
    for statement in reversed(statements):
        called = _called(statement)
        if called and called.rpartition(".")[2].startswith(_ALLOCATES):
            for name in _names(statement, ast.Store):
                kernel = uses.pop(name, GeneratedKernel(called, statement.lineno))
                if name.startswith(_POOL):
                    kernel = GeneratedKernel(name, kernel.line)
                found[statement] = kernel
        elif called and called.partition(".")[0] not in own and called not in _REQUESTS_NOTHING:
            kernel = found[statement] = GeneratedKernel(_operator(called), statement.lineno)
            uses.update(dict.fromkeys(_names(statement, ast.Load), kernel))
        elif isinstance(statement, ast.Assign):  # The new name is an alias of the same memory.
            nexts = [uses.pop(name) for name in _names(statement, ast.Store) if name in uses]
            for name in _names(statement, ast.Load) & own if nexts else ():
                uses[name] = min(*nexts, uses.get(name, nexts[0]), key=lambda one: one.line)
    return found


def _in_order(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield all statements that contain no other statements."""
    for statement in body:
        bodies = list(_bodies(statement))
        if not bodies:
            yield statement
        for inner in bodies:
            yield from _in_order(inner)


def _bodies(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for _, value in ast.iter_fields(statement):
        if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
            yield value


def _names(statement: ast.stmt, context: type[ast.expr_context]) -> set[str]:
    return {
        node.id
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, context)
    }


def _called(statement: ast.stmt) -> str:
    """Return the dotted name that a statement calls, or "" if it calls no name."""
    value = statement.value if isinstance(statement, ast.Expr | ast.Assign) else None
    parts: list[str] = []
    node = value.func if isinstance(value, ast.Call) else None
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def _operator(called: str) -> str:
    """Return the kernel's name as inductor has it, or the operator's name as in eager code."""
    name = called.removeprefix(_OPERATORS).removesuffix(".run")
    return ".".join(name.split(".")[:2])


def _call(method: str, at: ast.stmt, *arguments: ast.expr) -> ast.stmt:
    function = ast.Attribute(ast.Name(MARKS, ast.Load()), method, ast.Load())
    call = ast.Expr(ast.Call(function, list(arguments), []))
    for node in ast.walk(call):
        ast.copy_location(node, at)
    return call
