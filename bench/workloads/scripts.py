"""Code of benchmarks that ask pgmo about scripts, and then run the scripts on the stub."""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Any

from support.machine import print_earlier, table_parser, write_result

Result = dict[str, Any]

_LOOK = "import sys; from importlib.util import find_spec; "
_MISSING = _LOOK + "print(*(one for one in sys.argv[1:] if find_spec(one) is None))"


def missing_from(python: str, libraries: Iterable[str]) -> list[str]:
    """Return the modules that a Python lacks."""
    asked = [python, "-c", _MISSING, *dict.fromkeys(libraries)]
    done = subprocess.run(asked, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.split()


def require(python: str, libraries: Iterable[str]) -> None:
    """End the program with a message if a Python lacks libraries."""
    missing = missing_from(python, libraries)
    if missing:
        names = " ".join(missing)
        sys.exit(f"{python} lacks {', '.join(missing)}: {python} -m pip install {names}")


def parser(description: str) -> argparse.ArgumentParser:
    """Return a parser with the options of these benchmarks."""
    made = table_parser(description)
    made.add_argument("--python", default=sys.executable, help="Python with the CUDA torch")
    return made


def measured(names: Iterable[str], measure: Callable[[str], Result]) -> list[Result]:
    """Measure one script after the other, and print each row to stderr."""
    rows = []
    for name in names:
        rows.append(measure(name))
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    return rows


def run(
    name: str,
    arguments: argparse.Namespace,
    table: Callable[[Result], str],
    measure: Callable[[], Result],
    libraries: Iterable[str],
) -> Result | None:
    """Measure, write the result, and print its table; or print the table of an earlier result.

    Args:
        name: name of the result.
        arguments: arguments of `parser`.
        table: returns the table of a result.
        measure: returns a new result.
        libraries: modules that the scripts import.

    Returns:
        The result; None if the table of an earlier result was printed.
    """
    if print_earlier(name, arguments, table):
        return None
    require(arguments.python, libraries)
    result = measure()
    write_result(name, result, arguments.output, quick=arguments.quick)
    print(table(result))
    return result
