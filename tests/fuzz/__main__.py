"""Command `python -m tests.fuzz`: figures on stdout, and exit code 1 if an input fails."""

import argparse
import os
import sys
from pathlib import Path

from tests.fuzz.campaign import Figures, attack
from tests.fuzz.inputs import make_input


def main() -> int:
    """Try many inputs, or a single one."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--workers", type=int, default=min(8, os.cpu_count() or 1))
    parser.add_argument("--only", type=int, metavar="N", help="try input N alone, in this process")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="with --only: where it is put")
    given = parser.parse_args()
    if given.only is not None:
        return _one(given.seed, given.only, given.keep)
    figures = attack(
        given.inputs,
        seed=given.seed,
        first=given.first,
        workers=given.workers,
        progress=_show,
    )
    print("\n".join(_lines(figures)))
    return 1 if figures.failures or figures.inputs != given.inputs else 0


def _show(figures: Figures) -> None:
    """Print the figures so far on stderr, with the last failed inputs, after each piece."""
    failed = "".join(f", input {one['number']}" for one in figures.failures[-10:])
    counts = f"{figures.inputs} inputs, {len(figures.failures)} failed{failed}"
    print(f"{counts}; slowest {figures.slowest[0]:.2f} s", file=sys.stderr, flush=True)


def _one(seed: int, number: int, keep: Path | None) -> int:
    import tempfile

    from tests.fuzz.trial import Trial

    made = make_input(seed, number)
    if keep is not None:
        keep.with_suffix(made.suffix).write_bytes(made.data)
    with tempfile.TemporaryDirectory() as folder:
        print(f"{made.kind}, {len(made.data)} bytes: {Trial(Path(folder)).run(made)}")
    return 0


def _lines(figures: Figures) -> list[str]:
    lines = [f"inputs    {figures.inputs}"]
    lines += [f"          {count:8} {name}" for name, count in sorted(figures.outcomes.items())]
    lines.append(
        f"slowest   {figures.slowest[0]:.2f} s of the processor, input {figures.slowest[1]}"
    )
    lines.append(
        f"memory    {figures.memory[0]:.0f} bytes for one of the file and of 150 KiB more, input "
        f"{figures.memory[1]}; a process had {figures.resident / 2**20:.0f} MiB"
    )
    lines.append(f"failures  {len(figures.failures)}")
    lines += [f"  {one['number']} {one['kind']}: {one['error']}" for one in figures.failures[:20]]
    return lines


if __name__ == "__main__":
    sys.exit(main())
