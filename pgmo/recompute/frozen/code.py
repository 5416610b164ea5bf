"""What code reads beside attributes: global names, those of other modules, and closures."""

import dis
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import EnumMeta
from types import CodeType, FunctionType, MemberDescriptorType, ModuleType
from typing import Any, cast

from torch import Tensor, nn

from pgmo.recompute.frozen.places import is_foreign
from pgmo.recompute.frozen.reads import Read
from pgmo.recompute.frozen.remembered import MISSING, is_generator, is_plain, remember

_ATTRIBUTE = ("LOAD_ATTR", "LOAD_METHOD")


@dataclass(frozen=True, slots=True)
class Mention:
    """A global name in some code, with the attributes that are taken of it.

    Args:
        name: the global.
        attributes: of it, of what that gives, and so on: `config.model.scale` has two.
        value: what the global is.
        where: file and line.
    """

    name: str
    attributes: tuple[str, ...]
    value: Any
    where: tuple[str, int]

    @property
    def attribute(self) -> str | None:
        """The first of the attributes."""
        return self.attributes[0] if self.attributes else None


def mentions(codes: dict[CodeType, dict[str, Any]]) -> list[tuple[dict[str, Any], Mention]]:
    """The global names of some code, and of the functions that it calls by such names."""
    found = []
    todo, seen = list(codes.items()), set(codes)
    while todo:
        code, names = todo.pop()
        for one in _mentions(code, names):
            found.append((names, one))
            called = one.value
            if one.attribute is not None and isinstance(called, ModuleType):
                called = vars(called).get(one.attribute)
            if not isinstance(called, FunctionType) or called.__code__ in seen:
                continue
            seen.add(called.__code__)
            if is_foreign(called.__code__.co_filename):
                todo.append((called.__code__, called.__globals__))
        for inner in code.co_consts:
            if isinstance(inner, CodeType) and inner not in seen:
                seen.add(inner)
                todo.append((inner, names))
    return found


def _mentions(code: CodeType, names: dict[str, Any]) -> Iterator[Mention]:
    line = code.co_firstlineno
    instructions = list(dis.get_instructions(code))
    for index, one in enumerate(instructions):
        line = (one.positions.lineno if one.positions else None) or line
        if one.opname != "LOAD_GLOBAL" or one.argval not in names:
            continue
        following = itertools.takewhile(
            lambda one: one.opname in _ATTRIBUTE, instructions[index + 1 :]
        )
        attributes = tuple(str(one.argval) for one in following)
        yield Mention(one.argval, attributes, names[one.argval], (code.co_filename, line))


def of_names(owner: dict[str, Any], name: str) -> object:
    """What a dictionary of global names has."""
    return owner.get(name, MISSING)


def of_path(_owner: Any, _name: str, names: dict[str, Any], path: tuple[str, ...]) -> object:
    """What a global name, and attributes after it, lead to."""
    value = names.get(path[0], MISSING)
    for name in path[1:]:
        value = settled(value, name)
    return value


def of_entries(
    owner: Any, name: str, find: Callable[[Any, str], object], keys: tuple[Any, ...]
) -> object:
    """Some entries of a dictionary."""
    found = find(owner, name)
    if not isinstance(found, dict):
        return found
    return {key: found[key] for key in keys if key in found}


def settled(owner: Any, name: str) -> object:
    """An attribute that an object or a class has without running code; MISSING if none."""
    if isinstance(owner, type):
        kinds = owner.__mro__
    else:
        found = getattr(owner, "__dict__", {}).get(name, MISSING)
        if found is not MISSING:
            return found
        kinds = type(owner).__mro__
    for kind in kinds:
        found = vars(kind).get(name, MISSING)
        if isinstance(found, MemberDescriptorType) and not isinstance(owner, type):
            return getattr(owner, name, MISSING)  # of __slots__
        if found is not MISSING:
            return MISSING if hasattr(type(found), "__get__") else found
    return MISSING


def of_cell(owner: Any, _name: str) -> object:
    """What a closure holds."""
    try:
        return owner.cell_contents
    except ValueError:
        return MISSING


def global_reads(found: list[tuple[dict[str, Any], Mention]]) -> Iterator[Read]:
    """Numbers, words and containers among the mentions, and those that attributes lead to.

    An attribute of a class, or that an object has by its class, counts like one of its own. Of
    dictionaries, the entries that they have: registries grow as a program goes on.
    """
    seen = set()
    for names, one in found:
        owner, value, path = cast("Any", names), one.value, [one.name]
        for name in one.attributes:
            if is_plain(value) or is_generator(value):
                break  # whole: what is called is one of its methods
            if isinstance(value, (EnumMeta, nn.Module, Tensor)):
                break  # of modules, what is read is noted
            owner, value = value, settled(value, name)
            path.append(name)
        key = (id(names), *path)
        if key in seen or not (is_plain(value) or is_generator(value)):
            continue
        seen.add(key)
        find: Callable[[Any, str], object] = of_names
        if len(path) > 1:
            find = functools.partial(of_path, names=names, path=tuple(path))
        if isinstance(value, dict):
            find = functools.partial(of_entries, find=find, keys=tuple(value))
        yield Read(owner, path[-1], value, remember(find(owner, path[-1])), one.where, find)


def closure_reads(
    kinds: set[type], codes: dict[CodeType, dict[str, Any]], functions: Iterable[FunctionType]
) -> Iterator[Read]:
    """Numbers, words and containers in the closures of methods and other functions that ran."""
    methods = (one for kind in kinds for base in kind.__mro__ for one in vars(base).values())
    for method in itertools.chain(methods, functions):
        if not isinstance(method, FunctionType) or method.__code__ not in codes:
            continue
        place = (method.__code__.co_filename, method.__code__.co_firstlineno)
        names = method.__code__.co_freevars
        for name, cell in zip(names, method.__closure__ or (), strict=False):
            value = of_cell(cell, name)
            if is_plain(value):
                yield Read(cell, name, value, remember(value), place, of_cell)
