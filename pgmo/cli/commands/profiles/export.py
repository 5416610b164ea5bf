"""Write the blocks of a profile or a plan for other tools.

profile     a .pgmoprof file of a memory snapshot, a log or a table, one for each device
csv         one line per block, with its origin; for a plan, with its offset
perfetto    a timeline for https://ui.perfetto.dev, one tick as one microsecond
memory-viz  a memory snapshot for https://pytorch.org/memory_viz, blocks at their planned offsets

Sizes are in bytes, times in ticks: numbers of requests in the iteration. FILE is a profile, a plan,
or a recording of another tool. Such recordings are memory snapshots of PyTorch
(torch.cuda.memory._dump_snapshot), the lines of CuPy's DebugPrintHook, RMM logs, and tables
id,lower,upper,size; gzip is unpacked. A snapshot is a pickle, but no code in it is run. The profile
is one iteration if the recording repeats, else all of it; --whole and --iteration override that.
"""

import argparse
import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from pgmo.cli.source import import_profiles, read_profile_or_plan
from pgmo.cli.targets import check_number, check_suffix, check_targets, next_to, refuse_our_suffix
from pgmo.cli.terminal.output import as_command, print_json, print_wrote
from pgmo.errors import OptionError
from pgmo.files.replacement import replace_file
from pgmo.removed import FORMATS
from pgmo.terminal import print_message

if TYPE_CHECKING:
    from pgmo.packing.plan import Plan
    from pgmo.profiler.profile import Profile

_SUFFIXES = {
    "profile": ".pgmoprof",
    "csv": ".csv",
    "perfetto": ".perfetto.json",
    "memory-viz": ".memory-viz.pickle",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `pgmo export`."""
    parser.add_argument("file", metavar="FILE", help="a profile, plan, snapshot, log or table")
    parser.add_argument(
        "--to",
        required=True,
        type=_format,
        choices=tuple(_SUFFIXES),
        help="the format",
        dest="format",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="output file, - for stdout (default: next to FILE, with the suffix of the format)",
    )
    parser.add_argument("-f", "--force", action="store_true", help="overwrite existing files")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object about the written file"
    )
    parser.add_argument(
        "--device",
        metavar="N",
        type=int,
        help="with --to profile: only this device; -1 for pinned host memory",
    )
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument(
        "--whole",
        action="store_true",
        help="with --to profile: the whole recording, even if iterations repeat in it",
    )
    chosen.add_argument(
        "--iteration",
        metavar="N",
        type=int,
        help="with --to profile: only this iteration; 0 is the first that begins with a mark, "
        "-1 is everything before it; without marks, iterations are the runs of requests that "
        "repeat, even if they look like a loop over layers",
    )


def _format(name: str) -> str:
    """Return `name`; raise ArgumentTypeError if this format was removed."""
    hint = FORMATS.get(name)
    if hint:
        raise argparse.ArgumentTypeError(f"the format {name} was removed; {hint}")
    return name


def run(arguments: argparse.Namespace) -> int:
    """Run `pgmo export`."""
    from pgmo.packing.plan import Plan
    from pgmo.report.exporters.memory_viz import memory_viz

    to = arguments.format
    if to == "profile":
        return _write_profiles(arguments)
    if arguments.device is not None or arguments.whole or arguments.iteration is not None:
        raise OptionError(
            "--device, --whole and --iteration are only for --to profile; leave them out with "
            f"--to {to}"
        )
    if arguments.json and arguments.output == "-":
        raise OptionError("the blocks and --json cannot both go to stdout; name a file with -o")
    path = Path(arguments.file)
    target = _target(arguments)
    if arguments.output != "-":
        refuse_our_suffix(target, f"the output of --to {to}", _SUFFIXES[to])
        check_targets([target], force=arguments.force, sources=[path])
    elif to == "memory-viz":
        raise OptionError(
            "a memory snapshot is binary and is not written to stdout; name a file with -o"
        )
    source = read_profile_or_plan(path)
    notes = []
    if isinstance(source, Plan) and source.inner:
        further = len(source.inner)
        notes.append(f"only the main plan is written; further plans in the file: {further}")
    if arguments.output == "-":
        _write_text(source, to, sys.stdout)
    else:
        if to == "memory-viz":
            data = memory_viz(source)
        else:
            text = io.StringIO(newline="")
            _write_text(source, to, text)
            data = text.getvalue().encode()
        replace_file(target, data)
        if arguments.json:
            written = {"file": str(target), "format": to, "bytes": len(data), "blocks": len(source)}
            print_json({**written, "notes": notes})
    for note in notes:
        print_message(f"Note: {note}")
    if arguments.output != "-":
        print_wrote([target], _next(to, path, target))
    return 0


def _target(arguments: argparse.Namespace) -> Path:
    """Return the output path. For `a.csv.gz` and `--to profile`, the default is `a.pgmoprof`."""
    if arguments.output:
        return Path(arguments.output)
    source = arguments.file
    unpacked = next_to(source, "") if source.endswith(".gz") else source
    return next_to(unpacked, _SUFFIXES[arguments.format])


def _write_profiles(arguments: argparse.Namespace) -> int:
    from pgmo.report.findings.moment import find_moment
    from pgmo.report.findings.pools import find_private_pools

    if arguments.device is not None:
        check_number("--device", arguments.device, -1, 2**31 - 1)
    source, target = Path(arguments.file), _target(arguments)
    check_suffix(target, ".pgmoprof")
    check_targets([target], force=arguments.force, sources=[source])
    profiles = import_profiles(
        source,
        device=arguments.device,
        whole=arguments.whole,
        iteration=arguments.iteration,
    )
    targets = [target]
    if len(profiles) > 1:
        devices = [one.trace.device for one in profiles if one.trace is not None]
        targets = [target.with_suffix(f".{device}{target.suffix}") for device in devices]
        check_targets(targets, force=arguments.force, sources=[source])
    written = []
    for path, profile in zip(targets, profiles, strict=True):
        profile.save(path)
        notes = dict(profile.meta.notes)
        written.append(
            {"file": str(path), "device": profile.meta.device, "blocks": len(profile), **notes}
        )
        for name, text in notes.items():
            if name not in ("source", "events"):
                print_message(f"Note: {name}: {text}")
        pools = None if profile.trace is None else find_private_pools(profile.trace)
        if pools is not None:
            print_message("\n".join(pools.lines()))
    if arguments.json:
        print_json({"source": str(source), "profiles": written})
    moment = find_moment(profiles[0])
    if moment is not None:
        print_message(moment.sentences())
        print_wrote(targets, as_command("pgmo stats", targets[0], "--by", "file"))
    else:
        print_wrote(targets, as_command("pgmo plan", targets[0]))
    return 0


def _write_text(source: "Profile | Plan", to: str, out: TextIO) -> None:
    from pgmo.report.exporters.perfetto import write_perfetto
    from pgmo.report.exporters.spreadsheet import write_spreadsheet

    write = write_perfetto if to == "perfetto" else write_spreadsheet
    write(source, out)


def _next(to: str, path: Path, target: Path) -> str:
    if to == "perfetto":
        return f"open {target} in https://ui.perfetto.dev (it stays on your machine)"
    if to == "memory-viz":
        return f"open {target} in https://pytorch.org/memory_viz (it stays on your machine)"
    return as_command("pgmo stats", path)
