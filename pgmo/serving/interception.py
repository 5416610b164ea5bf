"""Interception of an object's calls by a subclass that is made for this object.

    model.__class__    Bert           ->   Bert, a subclass made for this object
    model.__dict__     unchanged

Hooks, parameters and state are unchanged, and copies and pickles have the original class. An
attribute in the object's `__dict__` would not work: it would be saved and copied, and Python does
not look up special methods in `__dict__`.

Sources: `torch.nn.utils.parametrize` and `torch.distributed.fsdp.fully_shard` change classes of
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

Interceptor = Callable[..., Any]
"""Type of callbacks that get the object's own method and the arguments of the call."""

_CLASS, _AROUND = "_pgmo_class", "_pgmo_around"
_COPIERS = ("__copy__", "__deepcopy__")


def intercept_calls(thing: T, methods: Iterable[str], around: Interceptor) -> T:
    """Route calls of these methods through `around(method, thing, ...)`. Return the same object.

    Args:
        thing: an object whose class is defined in Python.
        methods: names of methods; `__call__` is the call of the object itself.
        around: function that may run the method, and returns the result for the caller.

    Raises:
        OptionError: if the object has no such method, or its class cannot be changed.
    """
    own = type(thing)
    members: dict[str, Any] = {
        name: intercepted(_method(thing, name), around) for name in dict.fromkeys(methods)
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
        # `type(own)(...)` would call the metaclass, which may register the new class by its name.
        made = type.__new__(type(own), own.__name__, (own,), members)
        object.__setattr__(thing, "__class__", made)
    except TypeError as error:
        raise OptionError(
            f"the class of an object of type {own.__name__} cannot be changed ({error}); use "
            "@pgmo.optimize() on the function that calls it"
        ) from error
    return thing


def restore_class(thing: T) -> T:
    """Restore the class of an intercepted object, and return the object."""
    if interceptor_of(thing) is not None:
        object.__setattr__(thing, "__class__", vars(type(thing))[_CLASS])
    return thing


def interceptor_of(thing: object) -> Interceptor | None:
    """Return the callback of an intercepted object; None for other objects."""
    found = vars(type(thing)).get(_AROUND)
    return None if found is None else found.__func__


def _method(thing: object, name: str) -> Any:
    own = type(thing)
    # `getattr` alone would find `__call__` of the metaclass, which creates objects.
    found: Any = getattr(own, name) if any(name in vars(base) for base in own.__mro__) else None
    if not callable(found):
        known = [
            one for one in dir(own) if not one.startswith("_") and callable(getattr(own, one, None))
        ]
        raise OptionError(
            f"an object of type {own.__name__} has no method {name!r}; "
            f"its public methods: {', '.join(known) or 'none'}"
        )
    return found


def intercepted(function: Callable[..., Any], around: Interceptor) -> Callable[..., Any]:
    """Return a function that calls `around(function, ...)`; in compiled code only `function`."""

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


dynamo.track()
dynamo.skip(intercepted(print, print))  # every wrapper of `intercepted` has this code object
dynamo.skip(_is_compiling)


def _plain(copier: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(copier)
    def copy(self: Any, *args: Any) -> Any:
        return restore_class(copier(self, *args))

    return copy


def _reduce_as_before(self: Any, protocol: Any) -> Any:
    """Reduce the object for copies and pickles, with its original class."""
    made = type(self)
    own = vars(made).get(_CLASS, made)
    reduced = super(made, self).__reduce_ex__(protocol)
    if not isinstance(reduced, tuple):
        return reduced
    function, arguments, *rest = reduced
    arguments = tuple(own if one is made else one for one in arguments)
    if getattr(function, "__name__", "") == "__newobj__":
        # "__newobj__" would require the object's current class. This form unpickles without pgmo.
        function, arguments = operator.methodcaller("__new__", *arguments), (own,)
    return own if function is made else function, arguments, *rest
