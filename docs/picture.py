"""Picture of a plan: every block of an iteration at its address and lifetime.

    python examples/resnet.py --save plans
    python docs/picture.py plans/resnet.pgmoprof plans/resnet.pgmoplan -o docs/plan.svg

These two commands draw the picture of docs/index.md. They need matplotlib
(`pip install matplotlib`).
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import matplotlib

matplotlib.use("svg")

import numpy as np
from matplotlib import pyplot
from matplotlib.collections import PatchCollection
from matplotlib.patches import Patch, Rectangle

from pgmo.packing.plan import UNPLANNED, Plan
from pgmo.profiler.profile import Profile
from pgmo.units import format_bytes

COLOURS = {
    "forward": "#4477aa",
    "backward": "#ee6677",
    "optimizer": "#228833",
    "other": "#bbbbbb",
}
MIB = 2**20
# Without the salt, identifiers in the file would be random.
SETTINGS = {"svg.hashsalt": "pgmo", "svg.fonttype": "none", "font.size": 9}


def rectangles(profile: Profile, plan: Plan) -> Iterator[tuple[Rectangle, str]]:
    """Yield a rectangle and its phase for each slot; a wrapping lifetime gives two rectangles."""
    for row in np.flatnonzero(plan.offset != UNPLANNED).tolist():
        tag = int(profile.tag[row])
        phase = profile.tags[tag].phase if tag >= 0 else "other"
        start, end, height = int(plan.start[row]), int(plan.end[row]), int(plan.size[row]) / MIB
        offsets = [int(plan.offset[row])]
        if plan.alternate[row] != UNPLANNED:  # iterations alternate, so both slots are occupied
            offsets.append(int(plan.alternate[row]))
            start, end = 0, plan.ticks
        for offset in offsets:
            for begin, stop in pieces(start, end, plan.ticks):
                yield Rectangle((begin, offset / MIB), stop - begin, height), phase


def pieces(start: int, end: int, ticks: int) -> list[tuple[int, int]]:
    """Return the parts of a lifetime, as ticks within the iteration."""
    if end <= ticks:
        return [(start, end)]
    return [(start, ticks), (0, end - ticks)]


def draw(profile: Profile, plan: Plan, target: Path) -> None:
    """Write the picture."""
    with matplotlib.rc_context(SETTINGS):
        figure, axes = pyplot.subplots(figsize=(9, 4.2), layout="constrained")
        drawn: dict[str, list[Rectangle]] = {}
        for rectangle, phase in rectangles(profile, plan):
            drawn.setdefault(phase, []).append(rectangle)
        for phase, shapes in drawn.items():
            axes.add_collection(
                PatchCollection(
                    shapes,
                    facecolor=COLOURS.get(phase, COLOURS["other"]),
                    edgecolor="white",
                    linewidth=0.3,
                )
            )
        load = profile.load_curve(plan.alignment) / MIB
        (curve,) = axes.step(
            np.arange(plan.ticks),
            load,
            where="post",
            color="black",
            linewidth=1,
            label="live bytes",
        )
        axes.axhline(plan.arena / MIB, color="black", linewidth=1, linestyle=":")
        axes.set(
            xlim=(0, plan.ticks),
            ylim=(0, plan.arena / MIB * 1.02),
            xlabel="request within the iteration",
            ylabel="address in the arena, MiB",
        )
        model = plan.meta.model or "model"
        axes.set_title(
            f"{model}: {len(plan)} blocks in an arena of {format_bytes(plan.arena)}, "
            f"{plan.gap:.2%} above the lower bound",
            loc="left",
        )
        keys = [Patch(color=COLOURS[phase], label=phase) for phase in COLOURS if phase in drawn]
        figure.legend(handles=[*keys, curve], loc="outside lower center", ncols=5, frameon=False)
        target.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(target, format="svg", metadata={"Date": None})
        pyplot.close(figure)


def main() -> None:
    """Read the arguments, and draw."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("profile", type=Path, help="a .pgmoprof file")
    parser.add_argument("plan", type=Path, help="the .pgmoplan file made from it")
    parser.add_argument("-o", "--output", type=Path, default=Path("docs/plan.svg"))
    arguments = parser.parse_args()
    profile, plan = Profile.load(arguments.profile), Plan.load(arguments.plan)
    if profile.fingerprint != plan.fingerprint:
        parser.error(f"{arguments.plan} was not made from {arguments.profile}")
    draw(profile, plan, arguments.output)
    print(f"Wrote {arguments.output}")


if __name__ == "__main__":
    main()
