"""What an array's memory costs through CuPy: its own pool, and pgmo over such a pool.

Needs no GPU: CuPy itself runs on the stub CUDA runtime of pgmo/rehearsal, whose calls cost next to
nothing. So these are nanoseconds of the host, and kernels do not run.

    make fakecuda
    .venv-fakecuda/bin/python -m pip install cupy-cuda13x
    python bench/cupy_allocator.py --python .venv-fakecuda/bin/python
    python bench/cupy_allocator.py --quick                            to see that it works

From the request to the free, in four cases: served on the default stream, served on another stream,
recorded, and passed on by `pgmo.cupy_allocator()` while no session is open. Pool and pgmo take
turns in one process. Times are the processor time of the thread, and contain the loop that calls
them; ratios are medians over the turns.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _machine import add_common_options, write_result

ROOT = Path(__file__).resolve().parents[1]
SIZES = (512, 65536, 4 << 20)
ARRAYS, TURNS, QUICK_TURNS, WARM_UP = 2000, 300, 3, 8
RECORDED_TURNS = 50
"""A record grows with each."""
MOST_OF_POOL = 1.0
"""Of the time that CuPy's pool takes, on the default stream."""

Allocator = Callable[[int], Any]
Figures = dict[str, Any]


def nanoseconds(allocate: Allocator) -> float:
    """Of an array, over `ARRAYS` of them, each of which is freed when the next one is there."""
    begin = time.thread_time()
    for number in range(ARRAYS):
        _ = allocate(SIZES[number % len(SIZES)])
    return (time.thread_time() - begin) / ARRAYS * 1e9


class Comparison:
    """Figures of two allocators that have taken turns."""

    def __init__(self) -> None:
        self._pool: list[float] = []
        self._pgmo: list[float] = []

    def add(self, pool: float, pgmo: float) -> None:
        """Takes one turn of each."""
        self._pool.append(pool)
        self._pgmo.append(pgmo)

    def summary(self) -> Figures:
        """Return medians in nanoseconds, and the median and quartiles of the ratios."""
        ratios = [ours / pool for ours, pool in zip(self._pgmo, self._pool, strict=True)]
        quarters = statistics.quantiles(ratios)
        return {
            "pool_ns": round(statistics.median(self._pool), 1),
            "pgmo_ns": round(statistics.median(self._pgmo), 1),
            "ratio": round(statistics.median(ratios), 3),
            "ratio_quartiles": [round(quarters[0], 3), round(quarters[2], 3)],
        }


def measure(turns: int) -> dict[str, Any]:
    """All comparisons, in this process."""
    from _cupy_on_stub import redirect_runtime

    redirect_runtime()
    import cupy

    import pgmo

    def take_turns(count: int, session: Any = None, stream: Any = cupy.cuda.Stream.null) -> Figures:
        compared = Comparison()
        for _ in range(count):
            with contextlib.nullcontext() if session is None else session.iteration(), stream:
                ours = nanoseconds(cupy.cuda.get_allocator())
                compared.add(nanoseconds(pool), ours)
        return compared.summary()

    def replay(stream: Any) -> Figures:
        with pgmo.optimize(framework="cupy") as session:
            take_turns(WARM_UP, session, stream)
            found = take_turns(turns, session, stream)
            if session.history[-1].hit_rate < 1:
                sys.exit("not all requests were replayed, so nothing was compared")
            return found

    pool = cupy.cuda.MemoryPool().malloc
    cupy.cuda.set_allocator(pool)
    figures = {
        "default_stream": replay(cupy.cuda.Stream.null),
        "other_stream": replay(cupy.cuda.Stream(non_blocking=True)),
    }
    with pgmo.optimize(framework="cupy", record_only=True) as session:
        figures["recorded"] = take_turns(min(turns, RECORDED_TURNS), session)
    cupy.cuda.set_allocator(pgmo.cupy_allocator())
    figures["no_session"] = take_turns(turns)
    empty = statistics.median(nanoseconds(lambda size: None) for _ in range(turns))
    return {"cupy": cupy.__version__, "empty_loop_ns": round(empty, 1), "figures": figures}


def main() -> None:
    """Measures on the stub, and writes the result."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", default=sys.executable, help="one that has CuPy")
    parser.add_argument("--stub", type=Path, default=ROOT / "build/fakecuda")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    add_common_options(parser)
    arguments = parser.parse_args()
    turns = QUICK_TURNS if arguments.quick else TURNS
    if arguments.here:
        print(json.dumps(measure(turns)))
        return
    quick = ["--quick"] if arguments.quick else []
    worker = subprocess.run(
        [str(arguments.stub / "run"), arguments.python, __file__, "--here", *quick],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    if worker.returncode:
        sys.exit(worker.returncode)
    result = json.loads(worker.stdout.splitlines()[-1])
    for case, row in result["figures"].items():
        print(
            f"{case:16}{row['pgmo_ns']:8.0f} ns, pool {row['pool_ns']:.0f} ns: {row['ratio']:.2f}"
        )
    ratio = result["figures"]["default_stream"]["ratio"]
    claim = {"figure": ratio, "at_most": MOST_OF_POOL, "holds": ratio <= MOST_OF_POOL}
    result["claims"] = {"of_pool": claim}
    write_result("cupy_allocator", result, arguments.output, quick=arguments.quick)


if __name__ == "__main__":
    main()
