"""Picture of docs/guides/several_jobs.md: memory of two processes that take turns on a card.

    build/fakecuda/run PYTHON docs/turns.py      # records on the stub runtime, and draws

Each process trains a small GPT-2 under a broker, and records its memory after each forward and
backward pass of a layer. Times mean nothing on the stub, so each record is one step to the right.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

Recorded = dict[str, Any]
ROOT = Path(__file__).parents[1]
FILE = Path(__file__).parent / "pictures" / "turns.svg"
COLOURS = ("#4477aa", "#ee6677")
PALE = ("#bbccdd", "#f6c4ca")
FONT = 'font-family="system-ui, sans-serif" font-size="13" fill="#222"'
HALO = 'stroke="#fff" stroke-width="4" paint-order="stroke"'
SHOWN = 6
"""Number of iterations of both processes in the picture, from the end of the recording."""

WIDTH, HEIGHT, LEFT, TOP = 760, 300, 70, 40


def train(folder: Path, at: int) -> None:
    """Train in one of the two processes, and print its memory over time."""
    import torch
    from workloads import Shape, create

    import pgmo

    torch.cuda.memory.change_current_allocator(pgmo.torch_allocator())
    training = create("gpt", Shape(batch=(12, 8)[at], small=True))
    seen: list[tuple[float, int, bool]] = []

    def note(turn: bool) -> None:
        seen.append((time.monotonic(), torch.cuda.memory_reserved(), turn))

    for module in training.model.modules():
        module.register_forward_hook(lambda *_: note(True))
        module.register_full_backward_hook(lambda *_: note(True))
    meet(folder, "built", at)
    with pgmo.optimize(device="cuda") as session:
        for _ in range(10):
            with session.iteration():
                note(True)
                training.step(128)
                training.optimize.zero_grad()
                note(True)
            note(False)
        persistent = torch.cuda.memory_allocated()
        meet(folder, "trained", at)
    print(json.dumps({"seen": seen, "persistent": persistent, "arena": session.plan.arena}))


def meet(folder: Path, name: str, at: int) -> None:
    """Wait until the other process has reached the point `name`."""
    (folder / f"{name}{at}").touch()
    while not (folder / f"{name}{1 - at}").exists():
        time.sleep(0.01)


def record() -> list[Recorded]:
    """Run both processes under a broker, and return their records."""
    from pgmo.share.broker import Broker
    from pgmo.share.schedule import Rules

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        address = folder / "socket" / "share"
        with Broker(address, Rules(total=1, deadline=600, patience=600)) as broker:
            thread = threading.Thread(target=broker.run)
            thread.start()
            paths = os.pathsep.join([str(ROOT), str(ROOT / "bench")])
            settings = {"PGMO_SHARE": str(address), "FAKECUDA_SHARED": str(folder / "card")}
            processes = [
                subprocess.Popen(
                    [sys.executable, __file__, str(folder), str(at)],
                    env={**os.environ, **settings, "PYTHONPATH": paths},
                    stdout=subprocess.PIPE,
                    text=True,
                )
                for at in (0, 1)
            ]
            found = [json.loads(one.communicate()[0].splitlines()[-1]) for one in processes]
            broker.stop()
            thread.join()
    return found


def levels(found: list[Recorded]) -> list[tuple[int, int]]:
    """Return the bytes of both processes beyond their persistent memory, one pair per record."""
    events = sorted((*one, at) for at in (0, 1) for one in found[at]["seen"])
    ends = [place for place, one in enumerate(events) if not one[2]]
    begin, end = ends[-SHOWN - 1], ends[-1]
    above, steps = [0, 0], []
    for place, (_, held, _, at) in enumerate(events[: end + 1]):
        above[at] = max(0, held - found[at]["persistent"])
        if place >= begin:
            steps.append((above[0], above[1]))
    return steps


def draw(found: list[Recorded]) -> str:
    """Draw the persistent memory of both processes, and above it the memory of their turns."""
    steps = levels(found)
    lasting = [one["persistent"] for one in found]
    arenas = [one["arena"] for one in found]
    scale = HEIGHT / (sum(lasting) + sum(arenas)) * 0.95
    base, shapes = 0, []
    for at, colour in enumerate(COLOURS):
        shapes.append(area([(base, base + lasting[at])] * len(steps), colour, scale))
        base += lasting[at]
        y = TOP + HEIGHT - (base - lasting[at] / 2) * scale + 5
        name = f"process {'AB'[at]}: parameters, optimizer state"
        shapes.append(f'<text x="{LEFT + 8}" y="{y:.1f}" {FONT} style="fill:#fff">{name}</text>')
    shapes.append(area([(base, base + a) for a, _ in steps], PALE[0], scale))
    shapes.append(area([(base + a, base + a + b) for a, b in steps], PALE[1], scale))
    lines = (("with the larger arena", max(arenas)), ("with both arenas", sum(arenas)))
    for text, value in lines:
        y = TOP + HEIGHT - (base + value) * scale
        shapes.append(
            f'<path d="M{LEFT} {y:.1f}H{LEFT + WIDTH}" stroke="#222" stroke-dasharray="4 4"/>'
            f'<text x="{LEFT + WIDTH}" y="{y - 5:.1f}" text-anchor="end" {FONT} {HALO}>'
            f"{text}</text>"
        )
    for mark in range(0, (base + sum(arenas)) >> 20, 100):
        y = TOP + HEIGHT - (mark << 20) * scale
        shapes.append(
            f'<text x="{LEFT - 8}" y="{y + 5:.1f}" text-anchor="end" {FONT}>{mark} MiB</text>'
        )
    shapes.append(
        f'<text x="{LEFT}" y="{TOP + HEIGHT + 22}" {FONT}>iterations of A and B in turn; each '
        "pass of a layer is a step to the right</text>"
    )
    size = f"{LEFT + WIDTH + 20} {TOP + HEIGHT + 36}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="#fff"/>', *shapes, "</svg>\n"])


def area(bounds: list[tuple[int, int]], colour: str, scale: float) -> str:
    """Draw a filled area between two stepped lines."""
    wide = WIDTH / len(bounds)

    def line(heights: list[int]) -> list[str]:
        points = []
        for place, height in enumerate(heights):
            y = TOP + HEIGHT - height * scale
            if place == 0 or height != heights[place - 1]:
                points.append(f"{LEFT + place * wide:.1f} {y:.1f}")
            if place == len(heights) - 1 or height != heights[place + 1]:
                points.append(f"{LEFT + (place + 1) * wide:.1f} {y:.1f}")
        return points

    upper = line([high for _, high in bounds])
    lower = line([low for low, _ in bounds])[::-1]
    return f'<path d="M{"L".join([*upper, *lower])}Z" fill="{colour}"/>'


def main() -> None:
    """Record and draw, or run one of the two processes."""
    if len(sys.argv) == 3:
        train(Path(sys.argv[1]), int(sys.argv[2]))
        return
    FILE.write_text(draw(record()), "utf-8")
    print(f"Wrote {FILE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
