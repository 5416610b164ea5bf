"""Gives one object a class of its own, whose methods tell of their calls.

    model.__class__    Bert           ->   Bert, a subclass made for this object
    model.__dict__     as it was

So it stays the same object to all that hold it, and hooks, parameters and state are what they were.
An attribute in the object's `__dict__` would be saved and copied along with it, and special methods
are not looked up there. Copies and pickles are of the class that it had before.

Sources: `torch.nn.utils.parametrize` and `torch.distributed.fsdp.fully_shard` change the classes of
modules in the same way.
"""

import functools
import operator
import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from pgmo.error_frames import clear_frames
from pgmo.errors import OptionError
from pgmo.profiler.tagging import dynamo

T = TypeVar("T")

Around = Callable[..., Any]
"""Called with the object's own method, and what it was called with."""

_CLASS, _AROUND = "_pgmo_class", "_pgmo_around"
_COPIERS = ("__copy__", "__deepcopy__")


def put_on(thing: T, methods: Iterable[str], around: Around) -> T:
    """Has calls of these methods go through `around(method, thing, ...)`.

    Args:
        thing: an object of a class that Python code defines.
        methods: names; `__call__` is the call of the object itself.
        around: runs the method, or not; returns what the caller gets.

    Raises:
        OptionError: when the object has no such method, or its class cannot be changed.

    Example:
        >>> class Greeter:
        ...     def __call__(self): return "hello"
        >>> polite = put_on(Greeter(), ["__call__"], lambda method, *args: method(*args) + ", sir")
        >>> polite(), type(polite).__name__, isinstance(polite, Greeter)
        ('hello, sir', 'Greeter', True)
        >>> take_off(polite)()
        'hello'
    """
    own = type(thing)
    members: dict[str, Any] = {
        name: passed_on(_method(thing, name), around) for name in dict.fromkeys(methods)
    }
    members |= {name: _plain(getattr(own, name)) for name in _COPIERS if hasattr(own, name)}
    members |= {
        _CLASS: own,
        _AROUND: staticmethod(around),
        "__module__": own.__module__,
        "__qualname__": own.__qualname__,
        "__doc__": own.__doc__,
        "__reduce_ex__": _reduce_as_before,
    }
    try:
        # Not `type(own)(...)`: metaclasses register the classes that they make, by their names.
        made = type.__new__(type(own), own.__name__, (own,), members)
        object.__setattr__(thing, "__class__", made)
    except TypeError as error:
        raise OptionError(
            f"the class of an object of type {own.__name__} cannot be changed ({error}); use "
            "@pgmo.optimize() on the function that calls it"
        ) from error
    return thing


def take_off(thing: T) -> T:
    """Gives the object back the class that it had."""
    if worn(thing) is not None:
        object.__setattr__(thing, "__class__", vars(type(thing))[_CLASS])
    return thing


def worn(thing: object) -> Around | None:
    """What the object's calls go through; None where its class is its own."""
    found = vars(type(thing)).get(_AROUND)
    return None if found is None else found.__func__


def _method(thing: object, name: str) -> Any:
    own = type(thing)
    # Not by `getattr` alone: every class has the `__call__` with which objects are made.
    found: Any = getattr(own, name) if any(name in vars(base) for base in own.__mro__) else None
    if not callable(found):
        known = [
            one for one in dir(own) if not one.startswith("_") and callable(getattr(own, one, None))
        ]
        raise OptionError(
            f"an object of type {own.__name__} has no method {name!r}; "
            f"it has {', '.join(known) or 'none'}"
        )
    return found


def passed_on(function: Callable[..., Any], around: Around) -> Callable[..., Any]:
    """Return a function that calls `around(function, ...)`; in compiled code `function` alone."""

    @functools.wraps(function)
    def passing(*args: Any, **kwargs: Any) -> Any:
        if _is_compiling() or dynamo.inside():
            return function(*args, **kwargs)
        try:
            return around(function, *args, **kwargs)
        except BaseException as error:
            clear_frames(error)
            del args, kwargs
            raise

    return passing


def _is_compiling() -> bool:
    torch: Any = sys.modules.get("torch")
    return torch is not None and torch.compiler.is_compiling()


dynamo.skip(passed_on(print, print))  # every wrapper of `passed_on` has this code object
dynamo.skip(_is_compiling)


def _plain(copier: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(copier)
    def copy(self: Any, *args: Any) -> Any:
        return take_off(copier(self, *args))

    return copy


def _reduce_as_before(self: Any, protocol: Any) -> Any:
    """For copies and pickles: the class of before stands in the place of this one."""
    made = type(self)
    own = vars(made).get(_CLASS, made)
    reduced = super(made, self).__reduce_ex__(protocol)
    if not isinstance(reduced, tuple):
        return reduced
    function, arguments, *rest = reduced
    arguments = tuple(own if one is made else one for one in arguments)
    if getattr(function, "__name__", "") == "__newobj__":
        # By that name pickle wants the class of the object; what unpickles needs no pgmo.
        function, arguments = operator.methodcaller("__new__", *arguments), (own,)
    return own if function is made else function, arguments, *rest
