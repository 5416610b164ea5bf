"""`*.pgmoplan` files: a plan as a sealed archive of columns (docs/reference/files.md).

gpt.pgmoplan
+--------------------------------+
| size.npy ... meta.json         |  the plan
| other-1.pgmoplan               |  plans of other structures of the same program,
| other-2.pgmoplan               |  each a nested archive
| opening.pgmoplan               |  the plan of the first iteration
| order.pgmoplan ...             |  the stream orders of these plans
+--------------------------------+
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from pgmo.archive import Archive, pack, read, read_from, write
from pgmo.archive.fields import UNWRITTEN, Fields, as_text, refuse
from pgmo.errors import FileError, PgmoError
from pgmo.packing.plan import COLUMNS, Plan
from pgmo.packing.validator import validate
from pgmo.profiler.ordering.order import Order
from pgmo.profiler.ordering.order_file import MEMBER, pack_order, unpack_order
from pgmo.profiler.profile import MAX_TICKS
from pgmo.profiler.profile_file import meta_from_json, meta_to_json

FORMAT = "pgmoplan"
FORMAT_VERSION = 6
_OPENING = "opening"
_FIELDS: dict[str, Callable[[Any], object]] = {
    **dict.fromkeys(("arena", "max_load", "bound", "resident"), int),
    "optimal": bool,
    "solver": as_text,
    "alignment": int,
    "ticks": int,
    "circular": bool,
    "fingerprint": str,
    "seconds": float,
}
_MAX_ARENA = 2**61


def write_plan(plan: Plan, path: str | os.PathLike[str]) -> None:
    """Write a plan and the plans inside it. An existing file is replaced atomically.

    Raises:
        FileError: when the file cannot be written, or `read_plan` would reject the plan.
    """
    inner = {_other(number): other for number, other in enumerate(plan.others, 1)}
    if plan.opening is not None:
        inner[_OPENING] = plan.opening
    path = Path(path)
    for name, one in [("", plan), *inner.items()]:
        where = path / f"{name}.{FORMAT}" if name else path
        own = Fields(where, _fields(one), remedy=UNWRITTEN)
        _read_fields(own, len(one))
        _check(own, one)
    packed = {
        name: pack(FORMAT, FORMAT_VERSION, _columns(one), _fields(one))
        for name, one in inner.items()
    }
    for name, one in [("", plan), *inner.items()]:
        if one.order is not None:
            packed[_order_of(name)] = pack_order(one.order, FORMAT, FORMAT_VERSION)
    write(path, FORMAT, FORMAT_VERSION, _columns(plan), _fields(plan), packed)


def read_plan(path: str | os.PathLike[str], *, check: bool = True) -> Plan:
    """Read a plan and the plans inside it, and validate all plans if `check` is true.

    With `check=False`, the caller must validate the plans. A message about an inner plan names this
    plan like a file in a folder.

    Raises:
        FileError: when the file cannot be read, or is truncated, altered or of another version, or
            a plan in it is invalid.
    """
    archive = read(path, FORMAT, FORMAT_VERSION, COLUMNS, nests=True)
    nested_orders = _orders(archive)
    names = archive.nested.keys() - nested_orders.keys()
    others = [_other(number) for number in range(1, len(names - {_OPENING}) + 1)]
    for name in sorted(names - {_OPENING, *others}):
        refuse(archive.path, f"member '{name[:80]}.{FORMAT}' is not part of this format")
    for name in sorted(nested_orders.keys() - {_order_of(one) for one in ("", *names)}):
        refuse(archive.path, f"member '{name[:80]}.{FORMAT}' is not part of this format")
    inner = {}
    for name in names:
        where = archive.path / f"{name}.{FORMAT}"
        data = archive.nested[name]
        nested = read_from(where, data, FORMAT, FORMAT_VERSION, COLUMNS)
        inner[name] = _plan(nested, check, order=nested_orders.get(_order_of(name)))
    plans = inner.get(_OPENING), tuple(inner[other] for other in others)
    return _plan(archive, check, *plans, order=nested_orders.get(_order_of("")))


def _order_of(name: str) -> str:
    """Return the name of the member with a plan's order. `name` is "" for the main plan."""
    return f"{name}-{MEMBER}" if name else MEMBER


def _orders(archive: Archive) -> dict[str, Order]:
    return {
        name: unpack_order(data, archive.path / f"{name}.{FORMAT}", FORMAT, FORMAT_VERSION)
        for name, data in archive.nested.items()
        if name == MEMBER or name.endswith(f"-{MEMBER}")
    }


def _other(number: int) -> str:
    return f"other-{number}"


def _columns(plan: Plan) -> dict[str, NDArray[Any]]:
    return {name: getattr(plan, name) for name in COLUMNS}


def _fields(plan: Plan) -> dict[str, object]:
    fields = {name: kind(getattr(plan, name)) for name, kind in _FIELDS.items()}
    return {**fields, "meta": meta_to_json(plan.meta)}


def _plan(
    archive: Archive,
    check: bool,
    opening: Plan | None = None,
    others: tuple[Plan, ...] = (),
    *,
    order: Order | None = None,
) -> Plan:
    """Return the plan of an archive, validated if `check`. Plans inside are not validated again."""
    own = Fields(archive.path, archive.fields)
    columns: dict[str, Any] = archive.columns
    try:
        fields = _read_fields(own, archive.rows)
        plan = Plan(**columns, **fields, opening=opening, others=others, order=order)
        if check:
            _check(own, plan, fields["resident"])
    except FileError:
        raise
    except PgmoError as error:
        raise FileError(f"{archive.path}: {error}; plan again from the profile") from error
    return plan


def _read_fields(own: Fields, rows: int) -> dict[str, Any]:
    """Return the checked fields of `meta.json`, before writing or after reading."""
    own.only("meta", *_FIELDS)
    ticks = own.integer("ticks", 0, MAX_TICKS)
    if ticks > 1024 * (rows + 1024):
        own.refuse(f"declares {ticks} ticks for {rows} blocks, the most is {1024 * (rows + 1024)}")
    return {
        "arena": own.integer("arena", 0, _MAX_ARENA),
        "max_load": own.integer("max_load", 0, _MAX_ARENA),
        "bound": own.integer("bound", 0, _MAX_ARENA),
        "resident": own.integer("resident", 0, _MAX_ARENA),
        "optimal": own.flag("optimal"),
        "solver": own.text("solver"),
        "alignment": own.integer("alignment", 1, 2**40),
        "ticks": ticks,
        "circular": own.flag("circular"),
        "fingerprint": own.text("fingerprint"),
        "seconds": own.number("seconds"),
        "meta": meta_from_json(own.inner("meta")),
    }


def _check(own: Fields, plan: Plan, resident: int = 0) -> None:
    """Refuse a plan that is invalid, or whose figures or fingerprint contradict its blocks."""
    try:
        validate(plan)
        profile = plan.profile()
    except PgmoError as error:
        own.refuse(str(error))
    load = profile.max_load(plan.alignment)
    if plan.max_load != load:
        own.refuse(f"declares a max load of {plan.max_load} bytes, its blocks have {load}")
    if not load <= plan.bound <= plan.arena:
        own.refuse(f"declares a bound of {plan.bound} bytes, must be from {load} to {plan.arena}")
    if plan.optimal != (plan.bound == plan.arena):
        claim = "optimal" if plan.optimal else "not optimal"
        own.refuse(f"is called {claim}, with {plan.arena} bytes and a bound of {plan.bound} bytes")
    if plan.fingerprint != profile.fingerprint:
        own.refuse("declares a fingerprint that its blocks do not have")
    if resident > plan.arena:
        own.refuse(f"declares {resident} bytes on the device, in an arena of {plan.arena} bytes")
