"""Profiles predicted from small batches, against those recorded at the large one.

    python bench/extrapolation.py
    python bench/extrapolation.py --networks gpt lstm
    python bench/extrapolation.py --quick               one network, a little further

Each network of `cpu_networks` is recorded at three small batches (the GPT also over batch and
length together, the ResNet over image sizes). What `pgmo.extrapolate` says of the target is
compared with a recording there, and a session begins at the target from it. Sizes depend on the
kernels that torch and oneDNN choose, and so on the processor and the number of threads: both are in
the results.

`served` is the share of planned bytes that came from slots, for each iteration; optimizer state
that is born in the first one has none. `unforeseen` are requests of the target that no small
recording has: workspaces.
"""

import argparse
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from _machine import add_common_options, write_result
from cpu_networks import NAMES, create, module_of

import pgmo
from pgmo.profiler.extrapolation.same_requests import ABSENT, counterparts
from pgmo.units import format_bytes


@dataclass(frozen=True)
class Case:
    """A network, the points at which it is recorded, and the one that is predicted.

    Args:
        network: its name.
        points: of the recordings.
        target: what is predicted.
    """

    network: str
    points: tuple[dict[str, int], ...]
    target: dict[str, int]


def cases(networks: list[str], *, quick: bool) -> Iterator[Case]:
    """What is measured."""
    if quick:
        points = tuple({"batch": batch, "length": 4} for batch in (2, 4, 8))
        yield Case("lstm", points, {"batch": 16, "length": 4})
        return
    for network in networks:
        length = {"gpt": {"length": 64}, "lstm": {"length": 16}}.get(network, {})
        points = tuple({"batch": batch, **length} for batch in (2, 4, 8))
        yield Case(network, points, {"batch": 64, **length})
    if "gpt" in networks:
        grid = ((2, 16), (4, 16), (2, 32), (4, 32), (2, 64), (8, 64))
        points = tuple({"batch": batch, "length": length} for batch, length in grid)
        yield Case("gpt", points, {"batch": 32, "length": 160})
    if "resnet" in networks:
        points = tuple({"batch": 2, "image": image} for image in (32, 48, 64))
        yield Case("resnet", points, {"batch": 2, "image": 224})


@contextmanager
def sized(network: str, point: dict[str, int]) -> Iterator[None]:
    """Sets the batch and image size that the network's module has as constants."""
    module = module_of(network)
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
    plan = pgmo.plan(profile, opening=opening, effort="fast")
    session = train(case.network, case.target, 3, plan=plan)
    truth = _found(train(case.network, case.target, record_only=True).profile)
    row: dict[str, Any] = {
        "network": case.network,
        "points": case.points,
        "target": case.target,
        "laws": dict(Counter(steady.kinds.tolist())),
        "predicted": repr(steady),
        "requests": len(profile),
        "requests_recorded": len(truth),
        "arena": plan.arena,
        "arena_recorded": pgmo.plan(truth, effort="fast").arena,
        "phases": [one.phase.value for one in session.history],
        "served": [round(one.planned_bytes_rate, 6) for one in session.history],
    }
    row["arena_error"] = row["arena"] / row["arena_recorded"] - 1
    point = tuple(target.values())
    found = counterparts(profile, point, truth, point).row
    both = found != ABSENT
    recorded_size = truth.size[found[both]]
    off = profile.size[both] / recorded_size - 1
    row["unforeseen"] = len(truth) - int(np.sum(both))
    row["not_asked_for"] = int(np.sum(~both))
    row["exact_sizes"] = int(np.sum(off == 0))
    row["within_one_percent"] = int(np.sum(np.abs(off) <= 0.01))
    row["least_and_largest_error"] = [float(off.min()), float(off.max())]
    row["share_of_bytes_exact"] = float(recorded_size[off == 0].sum() / truth.size.sum())
    return row


def _found(profile: pgmo.Profile | None) -> pgmo.Profile:
    if profile is None:
        raise SystemExit("a recording gave no profile")
    return profile


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--threads", type=int, default=2, help="of torch (default: 2)")
    add_common_options(parser)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    rows = []
    for case in cases(args.networks, quick=args.quick):
        row = measure(case)
        rows.append(row)
        print(
            f"{case.network:7} {case.target}: arena {format_bytes(row['arena'])}, recorded "
            f"{format_bytes(row['arena_recorded'])} ({row['arena_error']:+.2%}); "
            f"{row['exact_sizes']} of {row['requests_recorded']} sizes exact, "
            f"{row['within_one_percent']} within 1 %; served "
            + ", ".join(f"{share:.2%}" for share in row["served"]),
            flush=True,
        )
    software = {"torch": torch.__version__, "threads": args.threads}
    write_result("extrapolation", {**software, "rows": rows}, args.output, quick=args.quick)


if __name__ == "__main__":
    main()
