"""Profiles foretold from small batches, against those recorded at the large one.

    python bench/extrapolation.py
    python bench/extrapolation.py --networks gpt lstm

Each demo network is recorded at three small batches (the GPT also over batch and length together,
the ResNet over image sizes). What `pgmo.extrapolate` says of the target is compared with a
recording there, and a session begins at the target from it. Where the three do not align, because
kernels ask for other workspaces at the smallest batch, that is kept as `refused`, and the next
larger batches are tried. Sizes depend on the kernels that torch
and oneDNN choose, and so on the processor and the number of threads: both are in the results.

`served` is the share of bytes that came from slots, for each iteration. The first one also gives
birth to optimizer state, which stays for good and on the CPU has no slot: `served_without_state`
leaves it out.
"""

import argparse
import importlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _machine import write_result

import pgmo
from pgmo.demo.network import NAMES, create
from pgmo.units import format_bytes


@dataclass(frozen=True)
class Case:
    """A network, the points at which it is recorded, and the one that is foretold.

    Args:
        network: its name.
        points: of the recordings.
        target: what is foretold.
        instead: larger points to try, for when kernels ask for other workspaces at the smallest.
    """

    network: str
    points: tuple[dict[str, int], ...]
    target: dict[str, int]
    instead: tuple[tuple[dict[str, int], ...], ...] = ()


def cases(networks: list[str]) -> Iterator[Case]:
    """What is measured."""
    for network in networks:
        length = {"gpt": {"length": 64}, "lstm": {"length": 16}}.get(network, {})
        small, *larger = (
            tuple({"batch": batch, **length} for batch in batches)
            for batches in ((2, 4, 8), (4, 8, 16), (8, 16, 32))
        )
        yield Case(network, small, {"batch": 64, **length}, tuple(larger))
    if "gpt" in networks:
        grid = ((2, 16), (4, 16), (2, 32), (4, 32), (2, 64), (8, 64))
        points = tuple({"batch": batch, "length": length} for batch, length in grid)
        yield Case("gpt", points, {"batch": 32, "length": 160})
    if "resnet" in networks:
        points = tuple({"batch": 2, "image": image} for image in (32, 48, 64))
        yield Case("resnet", points, {"batch": 2, "image": 224})


@contextmanager
def sized(network: str, point: dict[str, int]) -> Iterator[None]:
    """Sets the batch and image size that the demo's module has as constants."""
    module = importlib.import_module(f"pgmo.demo.{network}")
    wanted = {"_BATCH": point["batch"]}
    if "image" in point:
        wanted["_IMAGE"] = point["image"]
    before = {name: getattr(module, name) for name in wanted}
    try:
        for name, value in wanted.items():
            setattr(module, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)


def train(network: str, point: dict[str, int], iterations: int = 5, **options: Any) -> pgmo.Session:
    """Trains in a session, which is returned."""
    with sized(network, point):
        trained = create(network, seed=0)
        with pgmo.optimize(device="cpu", **options) as session:
            for index in range(iterations):
                with session.iteration():
                    trained.step(trained.batch(index, point.get("length")))
    return session


def measure(case: Case) -> dict[str, Any]:
    """One row of the results."""
    names = [name for name in case.target if len({point.get(name) for point in case.points}) > 1]
    values = {name: [point[name] for point in case.points] for name in names}
    target = {name: case.target[name] for name in names}
    recorded = [train(case.network, point, record_only=True) for point in case.points]
    steady = pgmo.extrapolate([_found(one.profile) for one in recorded], **values)
    first = pgmo.extrapolate([_found(one.opening) for one in recorded], **values)
    profile, opening = steady.at(**target), first.at(**target)
    session = train(case.network, case.target, 3, profile=profile, opening=opening)
    truth = _found(train(case.network, case.target, record_only=True).profile)
    row: dict[str, Any] = {
        "network": case.network,
        "points": case.points,
        "target": case.target,
        "laws": dict(Counter(steady.kinds.tolist())),
        "foretold": repr(steady),
        "requests": len(profile),
        "requests_recorded": len(truth),
        "arena": pgmo.plan(profile, effort="fast").arena,
        "arena_recorded": pgmo.plan(truth, effort="fast").arena,
        "phases": [one.phase.value for one in session.history],
        "served": [round(one.hit_bytes_rate, 6) for one in session.history],
        "served_without_state": [
            round(one.bytes_hit / (one.bytes_requested - (0 if index else _state(opening))), 6)
            for index, one in enumerate(session.history)
        ],
    }
    row["arena_error"] = row["arena"] / row["arena_recorded"] - 1
    if len(profile) == len(truth):
        off = profile.size / truth.size - 1
        row["exact_sizes"] = int(np.sum(off == 0))
        row["within_one_percent"] = int(np.sum(np.abs(off) <= 0.01))
        row["least_and_largest_error"] = [float(off.min()), float(off.max())]
        row["share_of_bytes_exact"] = float(truth.size[off == 0].sum() / truth.size.sum())
    return row


def first_that_aligns(case: Case) -> dict[str, Any]:
    """Measures with the smallest points at which the profiles align; tells of those before."""
    refused: list[str] = []
    for points in (case.points, *case.instead):
        try:
            return {**measure(replace(case, points=points)), "refused": refused}
        except pgmo.ProfileError as error:
            refused.append(str(error))
    return {"network": case.network, "target": case.target, "refused": refused}


def _found(profile: pgmo.Profile | None) -> pgmo.Profile:
    if profile is None:
        raise SystemExit("a recording gave no profile")
    return profile


def _state(opening: pgmo.Profile) -> int:
    return int(opening.size[opening.persistent].sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--threads", type=int, default=2, help="of torch (default: 2)")
    parser.add_argument("-o", "--output", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    rows = []
    for case in cases(args.networks):
        row = first_that_aligns(case)
        rows.append(row)
        for refusal in row["refused"]:
            print(f"{case.network:7} refused: {refusal}")
        if "arena" not in row:
            continue
        print(
            f"{case.network:7} {case.target}: arena {format_bytes(row['arena'])}, recorded "
            f"{format_bytes(row['arena_recorded'])} ({row['arena_error']:+.2%}); "
            f"{row.get('exact_sizes', 'no')} of {row['requests_recorded']} sizes exact; served "
            + ", ".join(f"{share:.1%}" for share in row["served_without_state"]),
            flush=True,
        )
    software = {"torch": torch.__version__, "threads": args.threads}
    write_result("extrapolation", {**software, "rows": rows}, args.output)


if __name__ == "__main__":
    main()
