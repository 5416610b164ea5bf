"""JSON: one object with what is known about the whole, and one a block."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, TextIO

from pgmo.packing.plan import Plan
from pgmo.profiler.profile import Profile
from pgmo.report.exporters.rows import block_rows
from pgmo.version import __version__


def write_document(source: Profile | Plan, out: TextIO) -> None:
    """Writes one object; its `blocks` are the rows of `block_rows`, one a line.

    A block's `tag` is an index into the `tags` of the whole, which also have the stack.
    """
    head = _of_profile(source) if isinstance(source, Profile) else _of_plan(source)
    write_with_list(head, "blocks", block_rows(source), out)


def write_with_list(
    head: Mapping[str, Any], name: str, items: Iterable[Mapping[str, Any]], out: TextIO
) -> None:
    """Writes an object whose last member is a long list, one item a line, as the items come."""
    begin = json.dumps(dict(head))[:-1]
    out.write(f'{begin}{", " if head else ""}"{name}": [')
    separator = "\n"
    for item in items:
        out.write(separator + json.dumps(item))
        separator = ",\n"
    out.write("\n]}\n")


def _of_profile(profile: Profile) -> dict[str, Any]:
    return {
        "kind": "profile",
        "pgmo_version": __version__,
        "ticks": profile.ticks,
        "circular": profile.circular,
        "steady": profile.steady,
        "max_load": profile.max_load(),
        "fingerprint": profile.fingerprint,
        "meta": asdict(profile.meta),
        "tags": [asdict(tag) for tag in profile.tags],
    }


def _of_plan(plan: Plan) -> dict[str, Any]:
    figures = ("ticks", "circular", "arena", "max_load", "bound", "optimal", "alignment", "solver")
    return {
        "kind": "plan",
        "pgmo_version": __version__,
        **{name: getattr(plan, name) for name in (*figures, "seconds", "fingerprint")},
        "meta": asdict(plan.meta),
    }
