"""Measure whether the first advice on a snapshot names the cause of the peak and its saving.

Needs no GPU: the real CUDA build of PyTorch runs on the stub CUDA runtime of pgmo/rehearsal.

    python bench/causes.py --python .venv-fakecuda/bin/python
    python bench/causes.py --python .venv-fakecuda/bin/python --program one_hot
    python bench/causes.py --python .venv-fakecuda/bin/python --resume      # only what is missing
    python bench/causes.py --table

The programs of `faulty/` are modelled on public reports. Each runs in two processes: as reported,
with PyTorch's memory history, and fixed. The first advice on the snapshot must be the known cause.
The stated saving is compared with the difference of the two peaks of allocated bytes. If a setting
of the allocator is the cause, peaks of reserved bytes are compared. Healthy programs run once. The
advice on them must name no cause.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

from support.machine import print_earlier, result_path, show, write_result
from support.stub_jobs import earlier_rows, stub_parser
from workloads.columns import markdown
from workloads.job import LARGE_CARD, process_settings
from workloads.launch import Stub

from pgmo.cli.source import import_profiles
from pgmo.report.summary import explain

TOLERANCE = 0.1
"""Maximum relative error of a stated saving."""

QUICK = ("one_hot", "plain_training")


def measure(stub: Stub, name: str, cause: str, report: str) -> dict[str, Any]:
    """Run a program, and its fixed form if it has a cause. Return their figures, sizes in bytes."""
    row: dict[str, Any] = {"program": name, "cause": cause, "report": report}
    with tempfile.TemporaryDirectory() as folder:
        row["peak"] = _run(stub, name, folder)
        (profile,) = import_profiles(Path(folder, f"{name}.pickle"))
        hints = explain(profile, predict=False).hints
        if cause:
            row["mended_peak"] = _run(stub, name, folder, "fixed")
    row["hints"] = [[one.title, one.bytes, one.is_cause] for one in hints]
    first = hints[0] if hints else None
    if not cause:
        row["right"] = not any(one.is_cause for one in hints)
        return row
    saved = row["peak"] - row["mended_peak"]
    row["right"] = first is not None and first.title == cause
    if row["right"] and first is not None and first.is_cause:
        row["said"], row["off"] = first.bytes, first.bytes / saved - 1
        row["text"] = first.text
    return row


def _run(stub: Stub, name: str, folder: str, *fixed: str) -> int:
    """Run a program in a process of its own. Return its peak of allocated or reserved bytes."""
    command = ("-m", "faulty.run", name, folder, *fixed)
    return int(stub.result_of(command, process_settings("default", LARGE_CARD)))


def programs(stub: Stub) -> dict[str, tuple[str, str]]:
    """Return cause and report of each program, by name. Only the stub's Python has torch."""
    code = (
        "import json, faulty; print(json.dumps({name: (one.cause, one.report) "
        "for name, one in faulty.load().items()}))"
    )
    found: dict[str, tuple[str, str]] = stub.result_of(("-c", code), {})
    return found


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as a Markdown table."""
    lines = [["program", "report", "first advice", "peak, MiB", "peak if fixed"]]
    lines[0] += ["stated saving", "error"]
    for row in rows:
        first = row["hints"][0][0] if row["hints"] else "none"
        cells = [row["program"], row["report"], first if row["cause"] else "healthy"]
        cells[2] += "" if row["right"] else " (wrong)"
        cells.append(f"{row['peak'] >> 20:,}")
        cells.append(f"{row['mended_peak'] >> 20:,}" if "mended_peak" in row else "")
        cells.append(f"{row['said'] >> 20:,}" if "said" in row else "")
        cells.append(f"{row['off']:+.0%}".replace("%", " %") if "off" in row else "")
        lines.append(cells)
    faulty = [row for row in rows if row["cause"]]
    right = sum(row["right"] for row in faulty)
    near = sum(abs(row.get("off", 1)) <= TOLERANCE for row in faulty)
    false = sum(not row["right"] for row in rows if not row["cause"])
    sums = (
        f"The right cause comes first in {right} of {len(faulty)}, its saving is within "
        f"{TOLERANCE * 100:.0f} % in {near}, and {false} of {len(rows) - len(faulty)} healthy "
        "programs get a cause."
    )
    return f"{markdown(lines)}\n\n{sums}"


def parse() -> argparse.Namespace:
    parser = stub_parser(__doc__ or "")
    parser.add_argument("--program", action="append", help="only this one; repeatable")
    parser.add_argument("--resume", action="store_true", help="keep rows of the earlier run")
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    if print_earlier("causes", arguments, lambda found: table(found["rows"])):
        return
    stub = Stub.build(arguments.python, arguments.stub.resolve())
    wanted = arguments.program or (QUICK if arguments.quick else None)
    path = result_path("causes", arguments.output, quick=arguments.quick)
    found = earlier_rows(path) if arguments.resume else []
    rows = {row["program"]: row for row in found}
    known = programs(stub)
    for name, (cause, report) in known.items():
        if name not in wanted if wanted else name in rows:
            continue
        rows[name] = measure(stub, name, cause, report)
        show(rows[name])
        ordered = [rows[one] for one in known if one in rows]
        # Written after each program, so that an interrupted run keeps its rows.
        write_result("causes", {"rows": ordered}, arguments.output, quick=arguments.quick)
    print(table(list(rows.values())))


if __name__ == "__main__":
    main()
