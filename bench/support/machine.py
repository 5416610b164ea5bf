"""Options, machine, status lines and result files of benchmarks.

parser = table_parser(__doc__)
show(row)
write_result("packing", {"rows": rows}, args.output, quick=args.quick)
"""

import argparse
import json
import os
import platform
import statistics
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results"
QUICK_RESULTS = Path(__file__).resolve().parents[2] / "build" / "bench"
"""Folder of the results of quick runs."""


@dataclass(frozen=True)
class Machine:
    """Processor, cores that this process may use, memory, and software."""

    cpu: str
    cores: int
    memory_bytes: int
    system: str
    python: str

    @classmethod
    def here(cls) -> "Machine":
        return cls(
            cpu=_cpu_name(),
            cores=len(os.sched_getaffinity(0)),
            memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            system=f"{platform.system()} {platform.machine()}",
            python=platform.python_version(),
        )


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"


@dataclass(frozen=True)
class Seconds:
    """Summary of repetitions of one measurement, in seconds."""

    median: float
    fastest: float
    slowest: float
    repetitions: int

    @classmethod
    def of(cls, samples: Sequence[float]) -> "Seconds":
        """Summarise samples in seconds; there must be at least one."""
        return cls(statistics.median(samples), min(samples), max(samples), len(samples))


def show(row: Mapping[str, Any]) -> None:
    """Print a status line with the texts and numbers of a row; lists are left out."""
    parts = []
    for name, value in row.items():
        if isinstance(value, bool):
            parts.append(name if value else "")
        elif isinstance(value, str):
            parts.append(value.partition("\n")[0][:80])
        elif isinstance(value, int | float):
            parts.append(f"{name} {value:,}" if isinstance(value, int) else f"{name} {value:.4g}")
    print("  ".join(filter(None, parts)), file=sys.stderr, flush=True)


def add_common_options(parser: argparse.ArgumentParser) -> None:
    """Add `--quick` and `--output`, which every benchmark has."""
    parser.add_argument("--quick", action="store_true", help="take only seconds, as a test")
    parser.add_argument("-o", "--output", type=Path, help="the file to write")


def table_parser(description: str) -> argparse.ArgumentParser:
    """Return a parser with `--table`, `--quick` and `--output`.

    Args:
        description: the module's docstring, whose first line is shown.
    """
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("--table", action="store_true", help="print tables of earlier runs")
    add_common_options(parser)
    return parser


def print_earlier(
    name: str, arguments: argparse.Namespace, table: Callable[[Any], str], *others: str
) -> bool:
    """Print the tables of earlier results if `--table` asks for them; return whether it does.

    Args:
        name: name of the script's result.
        arguments: arguments of `table_parser`.
        table: returns the table of a result.
        others: names of further results of the script.
    """
    if arguments.table:
        paths = [result_path(one) for one in (name, *others)]
        paths = [arguments.output] if arguments.output else paths
        print("\n\n".join(table(json.loads(path.read_text("utf-8"))) for path in paths))
    return bool(arguments.table)


def result_path(name: str, output: Path | None = None, *, quick: bool = False) -> Path:
    """Return the file of a benchmark's result: `output` if given, or the default."""
    return output or (QUICK_RESULTS if quick else RESULTS) / f"{name}.json"


def _script() -> str:
    """Return the running program's path in the project."""
    path, root = Path(sys.argv[0]).resolve(), Path(__file__).resolve().parents[2]
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name


def _without_paths(arguments: list[str]) -> list[str]:
    """Return the arguments without options whose values are paths of this machine."""
    kept = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for names in (("--python",), ("--stub",), ("-o", "--output")):
        kept.add_argument(*names)
    return kept.parse_known_args(arguments)[1]


def _without_folders(text: str) -> str:
    """Remove the paths of this machine's packages and project, which messages may contain."""
    own = Path(__file__).resolve().parents[2]
    packages = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    for folder in (*packages, *(path for path in sys.path if path.endswith("-packages")), str(own)):
        text = text.replace(f"{folder}/", "")
    return text


def write_result(
    name: str, result: Mapping[str, Any], output: Path | None = None, *, quick: bool = False
) -> Path:
    """Write `result` with date, machine and command as JSON; return the file.

    Args:
        name: name of the benchmark. The default file is `bench/results/NAME.json`.
        result: values that JSON can represent; they follow the header.
        output: file to write instead of the default.
        quick: whether this is a quick run, whose default file is `build/bench/NAME.json`.
    """
    path = result_path(name, output, quick=quick)
    header = {
        "benchmark": name,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join(["python", _script(), *_without_paths(sys.argv[1:])]),
        "machine": asdict(Machine.here()),
        **({"quick": True} if quick else {}),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    text = _without_folders(json.dumps({**header, **result}, indent=2))
    path.write_text(text + "\n", encoding="utf-8")
    print(f"Wrote {path}", file=sys.stderr)
    return path
