"""What code reads beside attributes: global names, those of other modules, and closures."""

import dis
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType
from typing import Any

from torch import Tensor, nn

from pgmo.recompute.frozen.places import is_foreign
from pgmo.recompute.frozen.reads import Read, of_instance
from pgmo.recompute.frozen.values import MISSING, is_generator, is_plain, remember

_ATTRIBUTE = ("LOAD_ATTR", "LOAD_METHOD")


@dataclass(frozen=True, slots=True)
class Mention:
    """A global name in some code, with the attribute that is taken of it.

    Args:
        name: the global.
        attribute: of it, if the code goes on so.
        value: what the global is.
        where: file and line.
    """

    name: str
    attribute: str | None
    value: Any
    where: tuple[str, int]


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
        following = instructions[index + 1] if index + 1 < len(instructions) else None
        taken = following is not None and following.opname in _ATTRIBUTE
        attribute = str(following.argval) if following is not None and taken else None
        yield Mention(one.argval, attribute, names[one.argval], (code.co_filename, line))


def of_names(owner: dict[str, Any], name: str) -> object:
    """What a dictionary of global names has."""
    return owner.get(name, MISSING)


def of_entries(owner: dict[str, Any], name: str, keys: tuple[Any, ...]) -> object:
    """Some entries of a dictionary that has a global name."""
    found = owner.get(name)
    if not isinstance(found, dict):
        return found
    return {key: found[key] for key in keys if key in found}


def of_cell(owner: Any, _name: str) -> object:
    """What a closure holds."""
    try:
        return owner.cell_contents
    except ValueError:
        return MISSING


def global_reads(found: list[tuple[dict[str, Any], Mention]]) -> Iterator[Read]:
    """Numbers, words and containers among the mentions, and those that are attributes of them.

    Of dictionaries, the entries that they have: registries grow as a program goes on.
    """
    for names, one in found:
        if isinstance(one.value, dict):
            find = functools.partial(of_entries, keys=tuple(one.value))
            before = remember(find(names, one.name))
            yield Read(names, one.name, one.value, before, one.where, find)
            continue
        if is_plain(one.value) or is_generator(one.value):
            before = remember(one.value)
            yield Read(names, one.name, one.value, before, one.where, of_names)
        elif one.attribute is not None and not isinstance(one.value, (type, nn.Module, Tensor)):
            value = getattr(one.value, "__dict__", {}).get(one.attribute, MISSING)
            if value is not MISSING and (is_plain(value) or is_generator(value)):
                before = remember(value)
                yield Read(one.value, one.attribute, value, before, one.where, of_instance)


def closure_reads(kinds: set[type], codes: dict[CodeType, dict[str, Any]]) -> Iterator[Read]:
    """Numbers, words and containers in the closures of methods that ran."""
    for kind in kinds:
        for base in kind.__mro__:
            for method in vars(base).values():
                if not isinstance(method, FunctionType) or method.__code__ not in codes:
                    continue
                place = (method.__code__.co_filename, method.__code__.co_firstlineno)
                names = method.__code__.co_freevars
                for name, cell in zip(names, method.__closure__ or (), strict=False):
                    value = of_cell(cell, name)
                    if is_plain(value):
                        yield Read(cell, name, value, remember(value), place, of_cell)
