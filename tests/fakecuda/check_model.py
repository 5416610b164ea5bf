"""Comparison of the model of PyTorch's caching allocator with the genuine allocator, by steps.

    python tests/fakecuda/check_model.py --programs 50         random programs, all settings
    python tests/fakecuda/check_model.py --record FILE         writes the genuine figures

It runs on the stub CUDA runtime (`make fakecuda`, then `build/fakecuda/run python ...`). Each
setting has its own processes, because PyTorch reads a setting once. Bytes are compared after every
step, and free blocks after every fifth: PyTorch 2.11 loses a reference to `False` in each
`memory_snapshot`, and Python aborts when no reference is left.
"""

import argparse
import json
import os
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.unit.profiler.caching.request_sequences import (
    MIB,
    PROGRAMS,
    ModelRun,
    Program,
    State,
    Step,
    steps,
)

LOOK = 5
AT_ONCE = 8  # programs per process, limited by the lost references (see above)


class GenuineRun:
    """Run of a program on PyTorch's own allocator."""

    def __init__(self, program: Program) -> None:
        import torch

        from pgmo.rehearsal import control

        self.torch, self.control = torch, control
        torch.cuda.init()
        self.capacity = torch.cuda.mem_get_info()[0]
        if program.fraction is not None:
            torch.cuda.set_per_process_memory_fraction(program.fraction)
        default = torch.cuda.default_stream()
        self.streams = [default, torch.cuda.Stream(), torch.cuda.Stream()]
        self.number = {stream.cuda_stream: at for at, stream in enumerate(self.streams)}
        self.blocks: dict[int, Any] = {}
        self.pools: dict[int, Any] = {}

    def step(self, step: Step, look: bool) -> State:
        torch, failed = self.torch, False
        match step:
            case ("alloc", number, size, stream, pool):
                try:
                    with torch.cuda.stream(self.streams[stream]), self.within(pool):
                        self.blocks[number] = torch.empty(size, dtype=torch.uint8, device="cuda")
                except torch.OutOfMemoryError:
                    failed = True
            case ("free", number):
                self.blocks.pop(number, None)
            case ("share", number, stream) if number in self.blocks:
                self.blocks[number].record_stream(self.streams[stream])
            case ("hold", stream):
                self.control.hold(self.streams[stream])
            case ("release", stream):
                self.control.release(self.streams[stream])
            case ("empty",):
                torch.cuda.empty_cache()
            case ("close", pool):
                self.pools.pop(pool, None)
        stats = torch.cuda.memory_stats()
        taken = torch.cuda.memory_snapshot() if look else []
        free = [
            (block["size"], self.number[segment["stream"]], segment["segment_type"] == "small")
            for segment in taken
            for block in segment["blocks"]
            if block["state"] == "inactive"
        ]
        return State(
            stats["reserved_bytes.all.current"],
            stats["active_bytes.all.current"],
            failed,
            sorted(free),
        )

    def within(self, pool: int) -> Any:
        """Return a context whose requests go to a `MemPool`; with 0, to PyTorch's own pools."""
        if pool == 0:
            return nullcontext()
        if pool not in self.pools:
            self.pools[pool] = self.torch.cuda.MemPool()
        return self.torch.cuda.use_mem_pool(self.pools[pool])

    def idle_streams(self) -> list[int]:
        """Return the numbers of streams without pending work."""
        return [at for at, stream in enumerate(self.streams) if stream.query()]


def later(program: Program, programs: int) -> list[Program]:
    """Return the program, and programs of the same setting with other seeds."""
    return [replace(program, seed=program.seed + 100 * at) for at in range(programs)]


def compare(program: Program, programs: int) -> dict[str, Any]:
    """Run programs of one setting on both; return the first difference, or counts and a curve.

    The curve is that of the first program. A row is [step, MiB reserved, whether the request
    failed, bytes active]; there is one for each change of the second or third figure.
    """
    genuine = GenuineRun(program)
    model = ModelRun(program, genuine.capacity)
    curves: list[list[list[int]]] = []
    count = failures = 0
    for one in later(program, programs):
        curve: list[list[int]] = []
        for at, step in enumerate(steps(one)):
            look = at % LOOK == 0
            wanted, got = genuine.step(step, look), model.step(step)
            model.waited_for(genuine.idle_streams())
            got = got if look else replace(got, free=[])
            count += 1
            failures += wanted.failed
            if wanted != got:
                return {
                    "program": asdict(one),
                    "at": at,
                    "step": step,
                    "genuine": asdict(wanted),
                    "model": asdict(got),
                }
            if not curve or curve[-1][1:3] != [wanted.reserved // MIB, int(wanted.failed)]:
                curve.append([at, wanted.reserved // MIB, int(wanted.failed), wanted.active])
        curves.append(curve)
    return {"steps": count, "failures": failures, "capacity": genuine.capacity, "curve": curves[0]}


def run_apart(program: Program, programs: int) -> dict[str, Any]:
    """Compare programs of one setting in their own processes."""
    outcomes = []
    for begin in range(0, programs, AT_ONCE):
        first = later(program, begin + 1)[-1]
        outcomes.append(_run_apart(first, min(AT_ONCE, programs - begin)))
        if "steps" not in outcomes[-1]:
            return outcomes[-1]
    total = {key: sum(one[key] for one in outcomes) for key in ("steps", "failures")}
    return {**outcomes[0], **total}


def _run_apart(program: Program, programs: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--one", json.dumps(asdict(program))]
    done = subprocess.run(
        [*command, "--programs", str(programs)],
        env={
            **os.environ,
            "PYTORCH_ALLOC_CONF": program.conf,
            "FAKECUDA_BYTES": str(program.card * MIB),
        },
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=5, help="how many of each setting")
    parser.add_argument("--record", type=Path, help="where to keep the genuine figures as JSON")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(compare(Program(**json.loads(args.one)), args.programs)))
        return 0
    wrong, recorded = 0, []
    for program in PROGRAMS:
        outcome = run_apart(program, args.programs)
        name = f"{program.conf or 'default':56} card {program.card} MiB"
        if "steps" not in outcome:
            wrong += 1
            print(f"DIFFERS {name}: {json.dumps(outcome)[:2000]}")
            continue
        print(f"same    {name}: {outcome['steps']} steps, {outcome['failures']} out of memory")
        if not program.other_streams:  # recorded figures have no events of other streams
            kept = {key: outcome[key] for key in ("capacity", "curve")}
            recorded.append({"program": asdict(program), **kept})
    if args.record and not wrong:
        lines = ",\n".join(json.dumps(one, separators=(",", ":")) for one in recorded)
        args.record.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
        print(f"Wrote {args.record}")
    return 3 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
