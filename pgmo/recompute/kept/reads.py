"""What a capture has read of Python, as data: compared when it is used, and at each call."""

import functools
import sys
from collections.abc import Callable
from types import MethodType
from typing import Any

from torch import nn

from pgmo.recompute.frozen.code import of_cell, of_entries, of_names, of_path
from pgmo.recompute.frozen.guard import Guard
from pgmo.recompute.frozen.reads import Read, of_class, of_instance
from pgmo.recompute.frozen.remembered import remember
from pgmo.recompute.kept.addresses import Addresses, found
from pgmo.recompute.kept.looks import look
from pgmo.recompute.kept.unfit import UnfitError

Find = Callable[[Any, str], object]

_FINDS: dict[str, Find] = {
    "instance": of_instance,
    "class": of_class,
    "names": of_names,
    "cell": of_cell,
}
_KINDS = {find: kind for kind, find in _FINDS.items()}


def described(guard: Guard, model: nn.Module) -> list[Any]:
    """The reads of a guard, which finds nothing changed at the moment.

    Raises:
        UnfitError: one of them could not be found by another process.
        GraphError: something has changed.
    """
    guard.check()
    # The flat module of a capture is the same for the same call.
    reads = [one for one in guard.reads if not type(one.owner).__module__.startswith("pgmo.")]
    names = [*guard.codes.values()]
    for read in reads:
        names += _names_of(read.find)
    unique = list({id(one): one for one in names}.values())
    owners = [read.owner for read in reads if not isinstance(read.find, functools.partial)]
    addresses = Addresses(model, unique, owners)
    return [
        [
            _owner(read, addresses),
            read.name,
            _described(read.find),
            list(read.where),
            look(read.now()),
        ]
        for read in reads
    ]


def restored(reads: list[Any], model: nn.Module) -> Guard:
    """A guard with reads as they were described, of a model for which they come out the same.

    Raises:
        UnfitError: something is another one here.
    """
    made = []
    for address, name, how, where, looked in reads:
        find = _found(how)
        owner = None if address is None else found(model, address)
        value = find(owner, name)
        if look(value) != looked:
            raise UnfitError(f"{name} is another one, which is read at {where[0]}:{where[1]}")
        kept = value.__func__ if isinstance(value, MethodType) else value
        made.append(Read(owner, name, kept, remember(value), (where[0], where[1]), find))
    return Guard.of_reads(model, made)


def _owner(read: Read, addresses: Addresses) -> Any:
    """None where what finds the value needs none."""
    if isinstance(read.find, functools.partial) and _is_path(read.find):
        return None
    return addresses.of(read.owner)


def _is_path(find: Any) -> bool:
    while isinstance(find, functools.partial) and find.func is of_entries:
        find = find.keywords["find"]
    return isinstance(find, functools.partial) and find.func is of_path


def _names_of(find: Any) -> list[dict[str, Any]]:
    if not isinstance(find, functools.partial):
        return []
    if find.func is of_entries:
        return _names_of(find.keywords["find"])
    return [find.keywords["names"]]


def _described(find: Any) -> Any:
    if find in _KINDS:
        return [_KINDS[find]]
    keywords = find.keywords
    if find.func is of_path:
        home = keywords["names"].get("__name__")
        if (
            not isinstance(home, str)
            or vars(sys.modules.get(home, object)) is not keywords["names"]
        ):
            raise UnfitError("code whose global names belong to no module")
        return ["path", home, list(keywords["path"])]
    if find.func is of_entries:
        if not all(isinstance(key, (str, int)) for key in keywords["keys"]):
            return ["entries", _described(keywords["find"]), None]  # the whole dictionary
        return ["entries", _described(keywords["find"]), list(keywords["keys"])]
    raise UnfitError(f"a read by {find}")


def _found(how: Any) -> Find:
    match how:
        case ["path", home, path]:
            names = vars(sys.modules.get(home, object))
            if not isinstance(names, dict):
                raise UnfitError(f"{home} is not imported")
            return functools.partial(of_path, names=names, path=tuple(path))
        case ["entries", inner, None]:
            return _found(inner)
        case ["entries", inner, keys]:
            return functools.partial(of_entries, find=_found(inner), keys=tuple(keys))
        case [kind] if kind in _FINDS:
            return _FINDS[kind]
    raise UnfitError(f"a read by {how}")
