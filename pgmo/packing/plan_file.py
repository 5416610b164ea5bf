"""`*.pgmoplan` files: a plan as a sealed archive of columns (DESIGN section 7)."""

import os
from pathlib import Path

from pgmo.archive import read, write
from pgmo.archive_fields import Fields, refuse
from pgmo.errors import FileError, PgmoError
from pgmo.packing.plan import COLUMNS, Plan
from pgmo.packing.validator import validate
from pgmo.profiler.profile import MAX_TICKS, Profile
from pgmo.profiler.profile_file import meta_from_json, meta_to_json

FORMAT = "pgmoplan"
FORMAT_VERSION = 2
_SINCE = {"shared": 2}  # the format version that brought a column
_MAX_ARENA = 2**61


def write_plan(plan: Plan, path: str | os.PathLike[str]) -> None:
    """Writes a plan; an existing file is replaced in one step.

    Raises:
        FileError: when the folder or the file cannot be written.

    Example:
        >>> write_plan(plan, "resnet.pgmoplan")  # doctest: +SKIP
    """
    own: dict[str, object] = {
        "arena": int(plan.arena),
        "max_load": int(plan.max_load),
        "optimal": bool(plan.optimal),
        "solver": str(plan.solver),
        "alignment": int(plan.alignment),
        "ticks": int(plan.ticks),
        "circular": bool(plan.circular),
        "fingerprint": str(plan.fingerprint),
        "seconds": float(plan.seconds),
        "meta": meta_to_json(plan.meta),
    }
    columns = {name: getattr(plan, name) for name in COLUMNS}
    write(path, FORMAT, FORMAT_VERSION, columns, own)


def read_plan(path: str | os.PathLike[str]) -> Plan:
    """Reads a plan back. It is checked like a new one: no two live blocks may share a byte.

    Raises:
        FileError: when the file is truncated, altered, newer, or its plan is invalid.

    Example:
        >>> try:
        ...     read_plan("/no/such/file.pgmoplan")
        ... except FileError as error:
        ...     print(error)
        /no/such/file.pgmoplan: cannot be read (No such file or directory); check the path
    """
    archive = read(path, FORMAT, FORMAT_VERSION, COLUMNS, _SINCE)
    own = Fields(archive.path, archive.fields)
    own.only(
        *("arena", "max_load", "optimal", "solver", "alignment", "ticks", "circular"),
        *("fingerprint", "seconds", "meta"),
    )
    ticks = own.integer("ticks", 0, MAX_TICKS)
    if ticks > 1024 * (archive.rows + 1024):
        refuse(archive.path, f"declares {ticks} ticks for {archive.rows} blocks")
    try:
        plan = Plan(
            **archive.columns,
            arena=own.integer("arena", 0, _MAX_ARENA),
            max_load=own.integer("max_load", 0, _MAX_ARENA),
            optimal=own.flag("optimal"),
            solver=own.text("solver"),
            alignment=own.integer("alignment", 1, 2**40),
            ticks=ticks,
            circular=own.flag("circular"),
            fingerprint=own.text("fingerprint"),
            seconds=own.number("seconds"),
            meta=meta_from_json(own.inner("meta")),
        )
        validate(plan)
        _check_bound(archive.path, plan)
    except FileError:
        raise
    except PgmoError as error:
        raise FileError(f"{archive.path}: {error}; plan again from the profile") from error
    return plan


def _check_bound(path: Path, plan: Plan) -> None:
    """Refuses a lower bound or a fingerprint that the blocks do not have."""
    names = ("size", "start", "end", "stream", "varying", "shared")
    columns = {name: getattr(plan, name) for name in names}
    profile = Profile.from_columns(**columns, ticks=plan.ticks, circular=plan.circular)
    load = profile.max_load(plan.alignment)
    if plan.max_load != load:
        refuse(path, f"declares a max load of {plan.max_load} bytes, its blocks have {load}")
    if plan.fingerprint != profile.fingerprint:
        refuse(path, "declares a fingerprint that its blocks do not have")
