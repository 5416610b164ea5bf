"""What code reads beside attributes: global names, those of other modules, and closures."""

import dis
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import EnumMeta
from types import CodeType, FunctionType, MemberDescriptorType, ModuleType
from typing import Any, cast

import torch
from torch import Tensor, nn

from pgmo.recompute.frozen.reads import FUNCTIONS, Read, Reads
from pgmo.recompute.frozen.remembered import MISSING, is_generator, is_plain, remember

_TRACER = torch.fx._symbolic_trace.__file__
_ATTRIBUTE = ("LOAD_ATTR", "LOAD_METHOD")

_STEPS = ("forward", "setup_context", "backward", "vjp", "jvp")
"""Methods of an autograd function."""


@dataclass(frozen=True, slots=True)
class Mention:
    """A global name in some code, with the attributes that are taken of it.

    Args:
        name: the global.
        attributes: of it, of what that gives, and so on: `config.model.scale` has two.
        value: what the global is.
        where: file and line.
        words: that the code has, which may be keys of a dictionary.
    """

    name: str
    attributes: tuple[str, ...]
    value: Any
    where: tuple[str, int]
    words: tuple[str, ...] = ()

    @property
    def attribute(self) -> str | None:
        """The first of the attributes."""
        return self.attributes[0] if self.attributes else None


def mentions(reads: Reads) -> list[tuple[dict[str, Any], Mention]]:
    """The global names of the code that was read, and of the functions that it calls by such names.

    Args:
        reads: is given the code of those functions, too.
    """
    found = []
    seen: set[CodeType] = set()
    while todo := [item for item in reads.codes.items() if item[0] not in seen]:
        for code, names in todo:
            seen.add(code)
            for one in _mentions(code, names):
                found.append((names, one))
                for called in _functions(one):
                    reads.see(called)
            for inner in code.co_consts:
                if isinstance(inner, CodeType):
                    reads.codes.setdefault(inner, names)
    return found


def _functions(one: Mention) -> Iterator[object]:
    """What runs when what a mention names is called."""
    called = one.value
    if one.attribute is not None and isinstance(called, (ModuleType, type)):
        called = vars(called).get(one.attribute, called)
    if isinstance(called, type) and issubclass(called, torch.autograd.Function):
        yield from (getattr(called, name, None) for name in _STEPS)
    else:
        yield called


def _mentions(code: CodeType, names: dict[str, Any]) -> Iterator[Mention]:
    words = tuple(one for one in code.co_consts if isinstance(one, str))
    for name, attributes, line in _loads(code):
        if name in names:
            where = (code.co_filename, line)
            yield Mention(name, attributes, of_names(names, name), where, words)


@functools.lru_cache(maxsize=4096)  # code objects, which are gone through in each forward pass
def _loads(code: CodeType) -> list[tuple[str, tuple[str, ...], int]]:
    """Return the global names that code loads, with the attributes and the line of each."""
    found = []
    line = code.co_firstlineno
    instructions = list(dis.get_instructions(code))
    for index, one in enumerate(instructions):
        line = (one.positions.lineno if one.positions else None) or line
        if one.opname == "LOAD_GLOBAL":
            following = itertools.takewhile(
                lambda one: one.opname in _ATTRIBUTE, instructions[index + 1 :]
            )
            found.append((one.argval, tuple(str(one.argval) for one in following), line))
    return found


def of_names(owner: dict[str, Any], name: str) -> object:
    """What a dictionary of global names has; not what PyTorch puts around it while it traces."""
    found = owner.get(name, MISSING)
    code = getattr(found, "__code__", None)
    if isinstance(code, CodeType) and code.co_filename == _TRACER:
        return getattr(found, "__wrapped__", found)
    return found


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
    # Registries may make something when they are asked, such as an activation of a name.
    return {key: dict.__getitem__(found, key) for key in keys if key in found}


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
    """Numbers, words, containers and functions among the mentions, and those of their attributes.

    An attribute of a class, or that an object has by its class, counts like one of its own. Of
    dictionaries, the entries that they have, and those that the code names: registries grow as a
    program goes on.
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
        known = is_plain(value) or is_generator(value) or isinstance(value, FUNCTIONS)
        if key in seen or not known:
            continue
        seen.add(key)
        find: Callable[[Any, str], object] = of_names
        if len(path) > 1:
            find = functools.partial(of_path, names=names, path=tuple(path))
        if isinstance(value, dict):
            words = (word for word in one.words if word not in value)
            find = functools.partial(of_entries, find=find, keys=(*value, *words))
        yield Read(owner, path[-1], value, remember(find(owner, path[-1])), one.where, find)


def objects(found: list[tuple[dict[str, Any], Mention]]) -> Iterator[object]:
    """What the mentions name and what their attributes lead to, of any kind."""
    for _, one in found:
        value = one.value
        yield value
        for name in one.attributes:
            if isinstance(value, (EnumMeta, nn.Module, Tensor)):
                break
            value = settled(value, name)
            yield value


def closure_reads(
    kinds: set[type], codes: dict[CodeType, dict[str, Any]], functions: Iterable[FunctionType]
) -> Iterator[Read]:
    """Numbers, words, containers and functions in the closures of what ran."""
    methods = (one for kind in kinds for base in kind.__mro__ for one in vars(base).values())
    for method in itertools.chain(methods, functions):
        if not isinstance(method, FunctionType) or method.__code__ not in codes:
            continue
        place = (method.__code__.co_filename, method.__code__.co_firstlineno)
        names = method.__code__.co_freevars
        for name, cell in zip(names, method.__closure__ or (), strict=False):
            value = of_cell(cell, name)
            if is_plain(value) or isinstance(value, FUNCTIONS):
                yield Read(cell, name, value, remember(value), place, of_cell)
