"""Make a profile of what another tool recorded: a memory snapshot, a log, a table.

Reads PyTorch memory snapshots (torch.cuda.memory._dump_snapshot, torch 2.1 on), the lines of CuPy's
DebugPrintHook, RMM logs, and CSV tables id,lower,upper,size, also compressed with gzip. A snapshot
is a pickle, and is read without running anything in it. The profile is one iteration if the
recording repeats, else all of it; --whole and --iteration decide that by hand.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgmo.cli.option_values import check_number

if TYPE_CHECKING:
    from pgmo.profiler.importers.imported import Imported
    from pgmo.profiler.profile import Profile
    from pgmo.profiler.trace import Trace


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `pgmo import`."""
    parser.add_argument("file", metavar="FILE", help="the snapshot, log or table")
    parser.add_argument(
        "-o",
        "--output",
        metavar="PROFILE",
        help="the .pgmoprof file to write (default: next to FILE); of several devices, one each",
    )
    parser.add_argument(
        "--device", metavar="N", type=int, help="only this device; -1: pinned memory of the host"
    )
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument(
        "--whole", action="store_true", help="all of the recording, whatever repeats in it"
    )
    chosen.add_argument(
        "--iteration",
        metavar="N",
        type=int,
        help="this one: 0 is the first that a mark begins, -1 what comes before; where nothing is "
        "marked, what repeats counts, even if it looks like a loop over layers",
    )
    parser.add_argument("-f", "--force", action="store_true", help="overwrite what is there")
    parser.add_argument("--json", action="store_true", help="print one object, no text")


def run(arguments: argparse.Namespace) -> int:
    """Runs `pgmo import`."""
    from pgmo.cli.targets import check_suffix, check_targets
    from pgmo.cli.terminal.output import print_json, print_wrote
    from pgmo.errors import OptionError
    from pgmo.profiler.importers.formats import read_file

    if arguments.device is not None:
        check_number("--device", arguments.device, -1, 2**31 - 1)
    source = Path(arguments.file)
    target = Path(arguments.output or _target(arguments.file))
    check_suffix(target, ".pgmoprof")
    found = _with_blocks(source, read_file(source, arguments.device))
    if arguments.device is not None and any(own.table is not None for own in found):
        raise OptionError(
            f"{source}: is a table of blocks, which names no device; leave out --device"
        )
    targets = [
        target if len(found) == 1 else target.with_suffix(f".{own.trace.device}{target.suffix}")
        for own in found
    ]
    check_targets(targets, force=arguments.force, sources=[source])
    told = []
    for path in targets:
        own = found.pop(0)  # of a large file one copy is enough
        profile = _profile(source, own, arguments.whole, arguments.iteration)
        profile.save(path)
        told.append({"file": str(path), **_describe(profile)})
    if arguments.json:
        print_json({"source": str(source), "profiles": told})
    else:
        print("\n\n".join("\n".join(_lines(fields)) for fields in told))
    print_wrote(targets, _next(targets[0], told[0]))
    return 0


def _next(target: Path, fields: dict[str, Any]) -> str:
    """Return the command to go on with: there is no plan of what has no history."""
    from pgmo.cli.terminal.output import as_command

    if fields["moment"]:
        return as_command("pgmo stats", target, "--by", "file")
    return as_command("pgmo plan", target)


def _with_blocks(source: Path, found: "list[Imported]") -> "list[Imported]":
    """Return the devices that have blocks; notes name the others.

    Raises:
        FileError: when none has.
    """
    from pgmo.cli.terminal.output import print_note
    from pgmo.errors import FileError
    from pgmo.profiler.iterations.traces.block_ends import pair_blocks

    empty = [own for own in found if own.table is None and not len(pair_blocks(own.trace))]
    if len(empty) == len(found):
        devices = ", ".join(own.device for own in empty)
        events = sum(len(own.trace) - own.trace.before for own in empty)
        raise FileError(
            f"{source}: has no allocation in its {events} events on {devices}; begin to record "
            "before the work"
        )
    for own in empty:
        print_note(f"{own.device}: nothing was allocated there, so it has no profile")
    return [own for own in found if own not in empty]


def _target(source: str) -> Path:
    """The name without what the formats end in, so that a.csv.gz becomes a.pgmoprof."""
    from pgmo.cli.targets import next_to

    unpacked = next_to(source, "") if source.endswith(".gz") else source
    return next_to(unpacked, ".pgmoprof")


def _profile(source: Path, own: "Imported", whole: bool, iteration: int | None) -> "Profile":
    from dataclasses import replace

    from pgmo.archive.fields import as_text
    from pgmo.errors import OptionError
    from pgmo.profiler.iterations.from_trace import profile_of
    from pgmo.profiler.profile import ProfileMeta
    from pgmo.version import __version__

    meta = ProfileMeta(
        framework=own.framework,
        pgmo_version=__version__,
        device=own.device,
        notes={"source": as_text(source.name), **own.notes},
    )
    if own.table is not None:
        if iteration is not None:
            raise OptionError(f"{source}: is a table of blocks, which has no iterations")
        return replace(own.table, meta=meta)
    return profile_of(own.trace, meta, whole=whole, iteration=iteration)


def _describe(profile: "Profile") -> dict[str, Any]:
    """The figures of one device; sizes in bytes."""
    from pgmo.profiler.trace import MarkedBy
    from pgmo.report.findings.moment import find_moment
    from pgmo.report.summary import plain

    trace = profile.trace
    before = 0 if trace is None else trace.before
    return {
        "device": profile.meta.device,
        "moment": plain(find_moment(profile)),
        "events": int(profile.meta.notes.get("events", "0")),
        "requests": len(profile) if trace is None else trace.requests,
        "alive_before": 0 if trace is None else int((trace.kind[:before] == 0).sum()),
        "blocks": len(profile),
        "ticks": profile.ticks,
        "circular": profile.circular,
        "persistent": int(profile.persistent.sum()),
        "persistent_bytes": int(profile.size[profile.persistent].sum()),
        "max_load": profile.max_load(),
        "live_peak": _live_peak(profile),
        "guessed": trace is not None and profile.circular and trace.marked_by == MarkedBy.PERIOD,
        "peak_reserved": None if trace is None else _reserved_at_peak(trace),
        "notes": dict(profile.meta.notes),
    }


def _live_peak(profile: "Profile") -> int:
    """The most bytes that were alive at once in all of the recording."""
    from pgmo.profiler.iterations.traces.block_ends import live_peak, pair_blocks

    trace = profile.trace
    if trace is None:
        return profile.max_load() + int(profile.size[profile.persistent].sum())
    return live_peak(trace, pair_blocks(trace))


def _reserved_at_peak(trace: "Trace") -> int | None:
    """The most that was taken from the driver at any time, in bytes; None if that is not known."""
    from pgmo.report.findings.fragmentation import reserved_curve

    return int(reserved_curve(trace)[max(0, trace.before - 1) :].max(initial=0)) or None


def _lines(fields: dict[str, Any]) -> list[str]:
    from pgmo.report.findings.moment import Moment
    from pgmo.units import format_bytes

    notes = dict(fields["notes"])
    lines = [
        f"source      {notes.pop('source')}" + (f", {fields['device']}" if fields["device"] else "")
    ]
    notes.pop("events", None)
    if fields["moment"]:
        notes.pop("iterations", None)
        told = [f"{name}: {text}" for name, text in notes.items()]
        return [*Moment(**fields["moment"]).lines(), *lines, *told]
    if fields["events"]:
        lines.append(
            f"events      {fields['events']}, {fields['requests']} of them requests; "
            f"{fields['alive_before']} blocks were there before"
        )
    if "iterations" in notes:
        lines.append(f"iterations  {notes.pop('iterations')}")
    lines.append(
        f"blocks      {fields['blocks']} in {fields['ticks']} ticks; {fields['persistent']} "
        f"persistent, {format_bytes(fields['persistent_bytes'])}"
    )
    lines.append(f"max load    {format_bytes(fields['max_load'])}, without the persistent ones")
    lines.append(f"live peak   {format_bytes(fields['live_peak'])} of all blocks in the recording")
    if fields["peak_reserved"] is not None:
        lines.append(f"reserved    {format_bytes(fields['peak_reserved'])} at the peak")
    lines += [f"{name}: {text}" for name, text in notes.items()]
    return lines
