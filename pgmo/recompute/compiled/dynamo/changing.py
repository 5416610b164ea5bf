"""Python numbers that change from step to step.

    scale = x.abs().max().item()     breaks the graph
    x / scale                        the next graph holds the number as a constant
    self.steps += 1                  the graph holds the attribute as a constant
    x * self.generator.random()      the graph reads a number that Dynamo draws before it runs

Each new number would need another capture. So operations on changing numbers break the graph and
run in eager mode.
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
"""Prefix of the names of functions that run the code after a graph break."""

_GLOBAL = GuardSource.GLOBAL

_AFTER_BREAK = 1
_ELSEWHERE = 3
"""Maximum number of values that one number may have. With one more value, the graph breaks.
`_AFTER_BREAK` is for functions that run after a graph break, `_ELSEWHERE` for other functions."""

_seen: WeakKeyDictionary[Any, dict[tuple[int, str], set[float]]] = WeakKeyDictionary()
"""Values of numbers with which code was captured: by code, then by the number's owner and name."""


@contextmanager
def changing_numbers_break_graphs() -> Iterator[None]:
    """Run a block in which Dynamo breaks graphs at numbers that have changed before."""
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
    """Break the graph where Python draws a random number, which Dynamo would draw only once."""
    _break(getattr(draw, "__name__", "random"))


def _break(context: str) -> None:
    unimplemented(
        gb_type="A number changes from call to call",
        context=context,
        explanation="It cannot be a constant of a graph.",
        hints=[],
    )


def _note(builder: Any, value: float) -> None:
    """Record a value of a variable or attribute; break the graph if it has had too many values."""
    owner = _owner(builder)
    if owner is None:
        return
    code = builder.tx.f_code
    values = _seen.setdefault(code, {}).setdefault((owner, builder.name), set())
    values.add(value)
    if len(values) > (_AFTER_BREAK if code.co_name.startswith(_RESUMED) else _ELSEWHERE):
        _break(builder.name)


def _owner(builder: Any) -> int | None:
    """Return the id of the object whose attribute a number is; 0 for a variable, None if unknown.

    The layers of a model run the same code, and each has its own numbers.
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
