"""Notes which Python attributes a forward pass reads, of modules and of objects that they hold.

    self.kl_weight            of a module: 0.1, at model.py:12
    self.config.scale         of an object that was read from a module: 2, at model.py:14
    getattr(self, "bias", 1)  is not there

While code runs the types themselves note it, in one thread. Parameters, buffers and submodules are
found by another way, and hooks and modes are looked at elsewhere.
"""

import functools
import inspect
import logging
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import (
    BuiltinFunctionType,
    CodeType,
    FrameType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any

from torch import Tensor, nn

from pgmo.recompute.frozen.places import is_foreign, is_scanned
from pgmo.recompute.frozen.remembered import MISSING, MOST, is_fixed, is_plain, remember

INSIDES = frozenset(vars(nn.Module())) | {"forward", "_compiled_call_impl", "call_super_init"}
"""Attributes that every module has."""

_CACHED = type(functools.lru_cache(len))

_WITHOUT = (
    *(Tensor, type, ModuleType, FunctionType, BuiltinFunctionType, MethodType),
    logging.Logger,  # asks itself anew which levels it has
    type(os.environ),  # read as a whole, and changed by others
)
"""Have attributes that are no settings."""

_TRACING = ("torch._", "torch.utils._", "torch.fx.")
"""Modules whose objects are made by the thousand while a step is traced, and never change."""

FUNCTIONS = (FunctionType, BuiltinFunctionType)
"""Types of functions that others may be put in the place of."""

OPTIONS = (bool, int, float, str)
"""Types of the options of PyTorch's modules."""


@dataclass(slots=True)
class Read:
    """One attribute as it was when it was read first.

    Args:
        owner: what was asked for it; it is kept alive, so that no other object takes its place.
        name: of the attribute.
        value: the object that was found; MISSING if none was.
        before: what `remember` said of it.
        where: file and line that read it.
        find: gives the value that the owner has now.
    """

    owner: Any
    name: str
    value: object
    before: object
    where: tuple[str, int]
    find: Callable[[Any, str], object]
    changes_inside: bool = field(init=False)

    def __post_init__(self) -> None:
        self.changes_inside = not is_fixed(self.value)

    def now(self) -> object:
        """The value that the owner has now."""
        return self.find(self.owner, self.name)

    def has_changed(self) -> bool:
        """Whether it is another one now."""
        now = self.now()
        if now is self.value and not self.changes_inside:
            return False
        if remember(now) == self.before:
            return False
        return isinstance(self.owner, nn.Module) or not _is_alike(now, self.value)


_WRITTEN_IN_PYTHON = 1 << 9
"""The bit of a type's flags that CPython calls Py_TPFLAGS_HEAPTYPE."""


def _is_alike(one: object, other: object) -> bool:
    """Whether two objects are of one class, written in Python, and hold the same."""
    kinds = type(one).__mro__[:-1]
    if type(one) is not type(other) or not all(k.__flags__ & _WRITTEN_IN_PYTHON for k in kinds):
        return False
    return hasattr(one, "__dict__") and remember(vars(one)) == remember(vars(other))


def is_of_torch(kind: type) -> bool:
    """Whether a class of modules is one of PyTorch's."""
    return kind.__module__.startswith("torch.nn.modules.")


def is_option(module: nn.Module, value: object) -> bool:
    """Whether a value is an option of a module of PyTorch's, such as a dropout's rate."""
    return isinstance(value, OPTIONS) and is_of_torch(type(module))


def of_instance(owner: Any, name: str) -> object:
    """What an object's own dictionary has."""
    return vars(owner).get(name, MISSING)


def of_class(owner: Any, name: str) -> object:
    """What an object has, itself or by its class."""
    return getattr(owner, name, MISSING)


class Reads:
    """What was read, each attribute once, and the code that read it."""

    def __init__(self) -> None:
        self.found: dict[tuple[int, str], Read] = {}
        self.codes: dict[CodeType, dict[str, Any]] = {}  # and its globals
        self.functions: dict[int, FunctionType] = {}  # those that attributes are, with closures
        self._thread = threading.get_ident()
        self._owners: dict[tuple[int, str], weakref.ref[Any]] = {}
        self._patched: dict[type, object] = {}

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Inside, attributes that are read are noted."""
        self._patch(nn.Module)
        try:
            yield
        finally:
            while self._patched:
                kind, own = self._patched.popitem()
                if own is MISSING:
                    del kind.__getattribute__
                else:
                    kind.__getattribute__ = own  # type: ignore[method-assign,assignment]
            self._leave_out_the_dead()

    def _leave_out_the_dead(self) -> None:
        """Objects that were made and gone while code ran are no settings, such as copies of one."""
        before = -1
        while len(self.found) != before:  # what one has held may be gone now, too
            before = len(self.found)
            for key, owner in list(self._owners.items()):
                if owner() is None:
                    del self._owners[key], self.found[key]
        for key, owner in self._owners.items():
            self.found[key].owner = owner()
        self._owners.clear()

    def _patch(self, kind: type) -> None:
        own = vars(kind).get("__getattribute__", MISSING)
        if kind in self._patched or (own is MISSING and self._patched.keys() & set(kind.__mro__)):
            return  # the class that it inherits from notes it
        original: Any = kind.__getattribute__

        def noting(owner: Any, name: str) -> Any:
            if threading.get_ident() != self._thread:
                return original(owner, name)
            if name.startswith("__"):
                value = original(owner, name)
                if name == "__dict__":
                    self._note_all(owner, value, sys._getframe(1))
                return value
            try:
                value = original(owner, name)
            except AttributeError:
                self._note_missing(owner, name, sys._getframe(1))
                raise
            self._note(owner, name, value, sys._getframe(1))
            return value

        try:
            kind.__getattribute__ = noting  # type: ignore[method-assign,assignment]
        except TypeError:
            return  # types that are not written in Python cannot be changed, and hold no settings
        self._patched[kind] = own

    def _note_missing(self, owner: Any, name: str, frame: FrameType) -> None:
        if isinstance(owner, nn.Module):
            places = ("_parameters", "_buffers", "_modules")
            if any(name in vars(owner).get(place, ()) for place in places):
                self._see(frame)
                return
        if isinstance(owner, nn.Module) and is_foreign(frame.f_code.co_filename):
            self._add(owner, name, MISSING, frame, of_instance)

    def _note_all(self, owner: Any, values: dict[str, Any], frame: FrameType) -> None:
        """For `vars(owner)`, which may lead to any of them."""
        if is_foreign(frame.f_code.co_filename):
            for name, value in values.items():
                if not name.startswith("_") or not isinstance(owner, nn.Module):
                    self._note(owner, name, value, frame)

    def _note(self, owner: Any, name: str, value: object, frame: FrameType) -> None:
        if isinstance(owner, nn.Module):
            if name in INSIDES:
                return
            if is_option(owner, value):
                return  # another value is another kind of call
            if isinstance(value, (list, dict)) and not is_foreign(frame.f_code.co_filename):
                return  # PyTorch's own, such as the parameters of an LSTM once more
        self._see(frame)
        if isinstance(value, Tensor):
            return  # such as a weight that a hook has computed; one with contents is refused
        if name in getattr(owner, "__dict__", ()):
            self._add(owner, name, value, frame, of_instance)
        elif is_plain(value) and _is_plain_member(type(owner), name):
            self._add(owner, name, value, frame, of_class)
        else:
            self.see(value)  # a property reads what it is made of
            function = getattr(value, "__func__", None)
            if isinstance(function, FunctionType) and is_foreign(function.__code__.co_filename):
                self._add(owner, name, value, frame, of_class)

    def watch(self, value: object) -> None:
        """Notes what is read of an object, if its class is neither PyTorch's nor of Python."""
        home = type(value).__module__.partition(".")[0]
        if not isinstance(value, nn.Module) and home not in ("torch", "pgmo", "builtins"):
            self._look_into(value)

    def _look_into(self, value: object, depth: int = 3) -> None:
        """Notes what objects have that an attribute is, or that are in a container."""
        if isinstance(value, (list, tuple, dict)):
            if depth and len(value) <= MOST:
                for one in value.values() if isinstance(value, dict) else value:
                    self._look_into(one, depth - 1)
        elif isinstance(value, functools.partial):
            self._look_into(value.func, depth)
        elif isinstance(value, (FunctionType, MethodType)):
            self.see(value)
        elif is_plain(value) or isinstance(value, (nn.Module, *_WITHOUT)):
            return
        elif not type(value).__module__.startswith(_TRACING):
            self._patch(type(value))

    def _add(
        self, owner: Any, name: str, value: object, frame: FrameType, find: Callable[..., object]
    ) -> None:
        key = (id(owner), name)
        known = self._owners.get(key)
        if key not in self.found or (known is not None and known() is not owner):
            where = (frame.f_code.co_filename, frame.f_lineno)
            before = remember(value)
            if isinstance(value, MethodType):
                value = value.__func__  # without what it is bound to
            self.found[key] = Read(owner, name, value, before, where, find)
            with suppress(TypeError):
                self._owners[key] = weakref.ref(owner)
                self.found[key].owner = None
            self._look_into(value)

    def see(self, value: object) -> None:
        """Adds the code of a function or method that may run."""
        function = getattr(value, "__func__", value)
        while isinstance(function, functools.partial):
            function = function.func
        if isinstance(function, _CACHED):
            function = inspect.unwrap(function)
        if not isinstance(function, FunctionType) or id(function) in self.functions:
            return
        self.functions[id(function)] = function
        if is_scanned(function.__code__.co_filename):
            self.codes.setdefault(function.__code__, function.__globals__)
        for cell in function.__closure__ or ():  # of a decorator, what is decorated
            with suppress(ValueError):
                self.see(cell.cell_contents)
        self.see(getattr(function, "__wrapped__", None))

    def _see(self, frame: FrameType) -> None:
        if is_scanned(frame.f_code.co_filename):
            self.codes.setdefault(frame.f_code, frame.f_globals)


def _is_plain_member(kind: type, name: str) -> bool:
    member = inspect.getattr_static(kind, name, MISSING)
    return is_plain(member) or isinstance(member, MemberDescriptorType)  # of __slots__
