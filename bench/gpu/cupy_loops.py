"""CuPy's own pool, the driver's asynchronous pool, and pgmo over CuPy's pool.

    python bench/gpu/cupy_loops.py --seconds 60
    python bench/gpu/cupy_loops.py --quick          one round

The figures are nanoseconds for an array's memory, from its request to its free, milliseconds for a
step of the two CuPy programs in examples/, and bytes that the pool has taken from the device. The
allocators take turns in one process, each over a pool of its own. If results differ in a single
bit, or slots serve fewer than 99 % of the last requests, the script ends without figures.
"""

# Not named cupy.py: this folder is first on the path, and `import cupy` would import the script.

import contextlib
import gc
import hashlib
import importlib.util
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from _launch import ROOT, gpu_parser
from support.machine import show, write_result

SIZES = (512, 65536, 4 << 20)
ARRAYS, STEPS, QUICK_STEPS, WARM_UP = 2000, 50, 2, 8


def program(name: str, kind: str) -> Any:
    """Return an instance of the class `kind` in the program `name` of examples/."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, kind)()


class Arrays:
    """Program that only requests and frees the memory of arrays."""

    def __init__(self) -> None:
        import cupy

        self._get = cupy.cuda.get_allocator

    def step(self) -> None:
        """Request and free the memory of `ARRAYS` arrays."""
        allocate = self._get()
        for number in range(ARRAYS):
            _ = allocate(SIZES[number % len(SIZES)])


PROGRAMS: dict[str, Callable[[], Any]] = {
    "arrays": Arrays,
    "mlp": lambda: program("cupy_mlp", "Network"),
    "conjugate gradient": lambda: program("cupy_conjugate_gradient", "Solver"),
}


def pools() -> dict[str, Callable[[], Any]]:
    """Return a function for each contestant that makes its pool. pgmo uses CuPy's own pool.

    `malloc_async` is left out if the device does not support it, as some virtual GPUs.
    """
    import cupy

    found: dict[str, Callable[[], Any]] = {
        "cupy": cupy.cuda.MemoryPool,
        "pgmo": cupy.cuda.MemoryPool,
        "malloc_async": lambda: cupy.cuda.MemoryAsyncPool(),
    }
    try:
        found["malloc_async"]().malloc(512)
    except Exception as error:  # the driver and CuPy raise various types
        print(f"malloc_async is left out: {error}", file=sys.stderr)
        del found["malloc_async"]
    return found


@dataclass(frozen=True)
class Outcome:
    """Result of one run.

    Args:
        seconds: mean seconds of a step in replay.
        peak: peak of the pool's bytes, recorded iterations included.
        held: bytes of the pool in replay, inside and outside of the arena.
        digest: digest of the program's arrays at the end.
    """

    seconds: float
    peak: int
    held: int
    digest: str


def digest_of(one: Any) -> str:
    """Return a digest of all arrays of a program."""
    import cupy

    arrays = [value for value in vars(one).values() if isinstance(value, cupy.ndarray)]
    return hashlib.sha256(b"".join(array.get().tobytes() for array in arrays)).hexdigest()


@contextlib.contextmanager
def steps(who: str, one: Any, after: Callable[[], None]) -> Iterator[Callable[[], None]]:
    """Yield a step that calls `after` at its end; with pgmo, it is an iteration of a session."""
    if who != "pgmo":

        def plain() -> None:
            one.step()
            after()

        yield plain
        return
    import pgmo

    with pgmo.optimize(framework="cupy") as session:

        def step() -> None:
            with session.iteration():
                one.step()
                after()

        yield step
        rate = session.history[-1].hit_rate
        if rate < 0.99:
            sys.exit(f"only {rate:.1%} of the last iteration's requests came from slots")


def measure(who: str, pool: Any, make: Callable[[], Any], times: int) -> Outcome:
    """Run a program over a pool of its own."""
    import cupy

    device = cupy.cuda.Device()
    taken: list[int] = []
    looking = True

    def look() -> None:
        if looking:  # only while steps are not timed
            taken.append(int(pool.total_bytes()))

    with cupy.cuda.using_allocator(pool.malloc):
        one = make()
        with steps(who, one, look) as step:
            for _ in range(WARM_UP):
                step()
            device.synchronize()
            looking = False
            begin = time.perf_counter()
            for _ in range(times):
                step()
            device.synchronize()
            seconds = (time.perf_counter() - begin) / times
        held = int(pool.total_bytes())
        digest = digest_of(one)
    del one, step
    gc.collect()
    return Outcome(seconds, max(*taken, held), held, digest)


def main() -> None:
    """Measure while there is time, and write the result."""
    arguments = gpu_parser(__doc__, 60).parse_args()
    try:
        import cupy

        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # CuPy and the driver raise various types
        print(f"Nothing measured: {error}", file=sys.stderr)
        return
    if not count:
        print("Nothing measured: there is no CUDA device", file=sys.stderr)
        return
    contestants = list(pools().items())
    end = time.monotonic() + arguments.seconds
    samples: dict[str, dict[str, list[Outcome]]] = {}
    rounds = 0
    most, times = (1, QUICK_STEPS) if arguments.quick else (9, STEPS)
    while rounds == 0 or (rounds < most and time.monotonic() < end - (arguments.seconds / 5)):
        for name, make in PROGRAMS.items():
            for who, pool in contestants if rounds % 2 == 0 else reversed(contestants):
                outcome = measure(who, pool(), make, times)
                samples.setdefault(name, {}).setdefault(who, []).append(outcome)
        rounds += 1
    figures: dict[str, Any] = {}
    for name, by_contestant in samples.items():
        if len({one.digest for outcomes in by_contestant.values() for one in outcomes}) > 1:
            sys.exit(f"{name}: results differ between runs, so nothing was compared")
        for who, outcomes in by_contestant.items():
            seconds = statistics.median(one.seconds for one in outcomes)
            last = outcomes[-1]
            row = {
                "seconds_per_step": seconds,
                "peak_pool_bytes": last.peak,
                "replay_pool_bytes": last.held,
            }
            if name == "arrays":
                row["nanoseconds_per_array"] = seconds / ARRAYS * 1e9
            figures.setdefault(name, {})[who] = row
            show({"program": name, "pool": who, **row})
    about = {
        "cupy": str(cupy.__version__),
        "gpu": cupy.cuda.runtime.getDeviceProperties(0)["name"].decode(),
        "rounds": rounds,
    }
    result = {**about, "figures": figures}
    write_result("gpu/cupy_loops", result, arguments.output, quick=arguments.quick)


if __name__ == "__main__":
    main()
