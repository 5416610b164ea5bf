"""Verdicts of `pgmo run`, compared with runs of plain PyTorch.

Needs no GPU: the real CUDA build of PyTorch runs on the stub CUDA runtime of pgmo/rehearsal.

    python bench/verdict.py --python .venv-fakecuda/bin/python
    python bench/verdict.py --python .venv-fakecuda/bin/python --case t5 --case nanogpt
    python bench/verdict.py --table

Each program runs twice, in processes of its own: with plain PyTorch, and under `pgmo run`. The
first run gives `reserved_bytes.all.peak`, the second the card's peak with pgmo, and the verdict.
The verdict's saving must be within 3 points of the real saving. If the real saving is above 3 %,
the sign must be right. With `--resume`, cases in the result file run again only if `--case` names
them.
"""

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from programs import PROGRAMS
from support.machine import print_earlier, result_path, show, write_result
from support.stub_jobs import earlier_rows, stub_parser
from verdicts import Case, all_cases, table
from workloads.job import process_settings
from workloads.launch import Stub
from workloads.scripts import missing_from

QUICK = ("llama_padded", "nanogpt")


def measure(stub: Stub, case: Case) -> dict[str, Any]:
    """Run a case without and with pgmo; return its row, sizes in bytes."""
    row: dict[str, Any] = {"label": case.label, **asdict(case)}
    packages = PROGRAMS[case.name].packages if case.kind == "program" else ()
    missing = missing_from(stub.python, packages)
    if missing:
        return row | {"skipped": f"needs {', '.join(missing)}"}
    with tempfile.TemporaryDirectory() as folder:
        plain = _run(stub, case, Path(folder, "plain.json"))
        ours = _run(stub, case, Path(folder, "ours.json"), Path(folder, "pgmo.json"))
    for one in (plain, ours):
        if "failed" in one:
            return row | {"failed": one["failed"]}
    verdicts = ours["pgmo"]["verdicts"]
    verdict = verdicts.get("cuda:0")
    if verdict is None:
        return row | {"failed": "pgmo run gave no verdict"}
    row |= {
        "plain": plain["reserved"],
        "plain_live": plain["live"],
        "taken": ours["card_peak"],
        "errors": [plain["error"], ours["error"]],
        "verdict": verdict,
    }
    return row | table.judged(row)


def _run(stub: Stub, case: Case, out: Path, report: Path | None = None) -> dict[str, Any]:
    """Run a case in a process; return its counters and `pgmo run`'s report, or its failure."""
    options = PROGRAMS[case.name].options if case.kind == "program" else ()
    pgmo = ("pgmo", "run", "--json", str(report), *options, "-m") if report else ()
    settings = {
        **process_settings("expandable" if case.configuration else "default", case.card),
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
    command = ("-m", *pgmo, "verdicts.run", json.dumps(asdict(case)), str(out))
    done = stub.run(command, settings)
    if done.returncode or not out.exists():
        return {"failed": (done.stderr.strip().splitlines() or ["no output"])[-1][:300]}
    counted: dict[str, Any] = json.loads(out.read_text("utf-8"))
    if report is not None:
        counted["pgmo"] = json.loads(report.read_text("utf-8"))
    return counted


def parse() -> argparse.Namespace:
    parser = stub_parser(__doc__)
    parser.add_argument("--case", action="append", help="only this program; repeatable")
    parser.add_argument("--resume", action="store_true", help="keep rows of the earlier run")
    return parser.parse_args()


def main() -> None:
    arguments = parse()
    if print_earlier("verdict", arguments, lambda found: table.table(found["rows"])):
        return
    stub = Stub.build(arguments.python, arguments.stub.resolve())
    names = arguments.case or (QUICK if arguments.quick else None)
    cases = [one for one in all_cases(small=arguments.quick) if not names or one.name in names]
    rows: list[dict[str, Any]] = []
    path = result_path("verdict", arguments.output, quick=arguments.quick)
    if arguments.resume:
        rows = earlier_rows(path)
        done = {row["label"] for row in rows}
        rows = [row for row in rows if row["name"] not in (arguments.case or ())]
        cases = [case for case in cases if arguments.case or case.label not in done]
    for case in cases:
        rows.append(measure(stub, case))
        show(rows[-1])
        # Written after each case, so that an interrupted run keeps its rows.
        write_result("verdict", {"rows": rows}, arguments.output, quick=arguments.quick)
    print(table.table(rows))
    if not all(row.get("right", "skipped" in row) for row in rows):
        sys.exit("a verdict is wrong, or a run failed")


if __name__ == "__main__":
    main()
