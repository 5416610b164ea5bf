"""Python numbers that change from step to step.

    scale = x.abs().max().item()     breaks the graph
    x / scale                        the graph after the break holds the number as a constant
    self.steps += 1                  the graph holds the attribute as a constant
    x * self.generator.random()      the graph reads a number that Dynamo draws before it runs

Each new number would need another graph. So the graph is broken at operations on such numbers,
which then run in eager mode.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch
from weakref import WeakKeyDictionary

from torch._dynamo.exc import unimplemented
from torch._dynamo.variables import misc, user_defined
from torch._dynamo.variables.builder import VariableBuilder
from torch._guards import GuardSource

_RESUMED = "torch_dynamo_resume_in_"
"""Beginning of the names of functions that run the code after a graph break."""

_GLOBAL = GuardSource.GLOBAL

_AFTER_BREAK = 1
_ELSEWHERE = 3
"""Number of values that a variable may have before its graph is broken."""

_seen: WeakKeyDictionary[Any, dict[tuple[int, str], set[float]]] = WeakKeyDictionary()
"""Values with which functions were captured, by object and name of the variable."""


@contextmanager
def changing_numbers_break_graphs() -> Iterator[None]:
    """Run a block in which Dynamo captures no operation on a number that has changed before."""
    wrap_float, wrap = VariableBuilder.wrap_symfloat, VariableBuilder.wrap_literal

    def of_float(self: Any, value: float) -> Any:
        _note(self, value)
        return wrap_float(self, value)

    def of_literal(self: Any, value: object) -> Any:
        kind = self.source.guard_source
        if type(value) is int and (kind.is_unspecialized_nn_module() or kind is _GLOBAL):
            _note(self, value)
        return wrap(self, value)

    with (
        patch.object(VariableBuilder, "wrap_symfloat", of_float),
        patch.object(VariableBuilder, "wrap_literal", of_literal),
        patch.object(misc, "call_random_fn", _break_at_draw),
        patch.object(user_defined, "call_random_fn", _break_at_draw),
    ):
        yield


def _break_at_draw(_translator: object, draw: Any, *_arguments: object) -> None:
    """Break the graph where Python draws a random number.

    Dynamo would draw it as a float64 tensor, and not again when the graph runs once more.
    """
    _break(getattr(draw, "__name__", "random"))


def _break(context: str) -> None:
    unimplemented(
        gb_type="A number is another one each time",
        context=context,
        explanation="It is no constant of a graph.",
        hints=[],
    )


def _note(builder: Any, value: float) -> None:
    """Break the graph if a variable, or an attribute of the same object, had too many values."""
    owner = _owner(builder)
    if owner is None:
        return
    code = builder.tx.f_code
    values = _seen.setdefault(code, {}).setdefault((owner, builder.name), set())
    values.add(value)
    if len(values) > (_AFTER_BREAK if code.co_name.startswith(_RESUMED) else _ELSEWHERE):
        _break(builder.name)


def _owner(builder: Any) -> int | None:
    """Return the id of the object whose attribute is the number; 0 for a variable, None if unknown.

    The layers of a model run one function, and each has its own numbers.
    """
    base = getattr(builder.source, "base", None)
    if base is None:
        return 0
    output = builder.tx.output
    try:
        scope = {"L": output.local_scope, "G": output.global_scope}
        return id(base.get_value(scope, {}, {}))
    except Exception:
        return None
