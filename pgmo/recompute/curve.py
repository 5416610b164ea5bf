"""Trade-off between the peak and the overhead of a step, as rows, text and plot."""

import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgmo.errors import OptionError
from pgmo.files.replacement import replace_file
from pgmo.recompute.planners.evaluator import Choice
from pgmo.recompute.planners.graph import Graph
from pgmo.units import format_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Point:
    """Choice, with the time of its reruns and waits as shares of the forward pass's time.

    `host_bytes` is the number of bytes of host memory for offloaded values.
    """

    choice: Choice
    rerun: float
    waited: float
    host_bytes: int

    @classmethod
    def of(cls, graph: Graph, choice: Choice) -> "Point":
        """Return the point of a choice on the graph for which the choice was made."""
        schedule = choice.on(graph)
        return cls(choice, schedule.rerun_share, schedule.wait_share, schedule.host_bytes)


@dataclass(frozen=True)
class Curve:
    """Choices of ascending peak and descending overhead.

    Args:
        points: the choices; the last one has no overhead.
    """

    points: tuple[Point, ...]

    @property
    def choices(self) -> tuple[Choice, ...]:
        """Choice at each point."""
        return tuple(one.choice for one in self.points)

    def as_rows(self) -> list[dict[str, Any]]:
        """Return the points as dictionaries.

        `peak` and `host_bytes` are bytes; `overhead`, `rerun` and `waited` are shares of the time
        of the forward pass.
        """
        return [
            {
                "peak": one.choice.peak,
                "overhead": one.choice.overhead,
                "rerun": one.rerun,
                "waited": one.waited,
                "host_bytes": one.host_bytes,
                "planner": one.choice.planner,
            }
            for one in self.points
        ]

    def __str__(self) -> str:
        away = any(row["host_bytes"] for row in self.as_rows())
        more = f"  {'run again':>9}  {'waited':>8}  {'on the host':>11}" if away else ""
        lines = [f"{'peak':>10}  {'overhead':>8}{more}  planner"]
        for row in self.as_rows():
            line = f"{format_bytes(row['peak']):>10}  {100 * row['overhead']:>6.1f} %"
            if away:
                line += f"  {100 * row['rerun']:>7.1f} %  {100 * row['waited']:>6.1f} %"
                line += f"  {format_bytes(row['host_bytes']):>11}"
            lines.append(f"{line}  {row['planner']}")
        return "\n".join(lines)

    def plot(self, path: str | os.PathLike[str] | None = None) -> "Figure":
        """Draw overhead over peak; needs matplotlib (`pip install matplotlib`).

        Args:
            path: file to write, or None; the suffix is the format.

        Returns:
            The figure.

        Raises:
            OptionError: if matplotlib is not installed or cannot write the format.
            FileError: if the file cannot be written.
        """
        Figure = _figure()  # noqa: N806
        kind = None if path is None else _picture_format(path)
        figure = Figure(figsize=(6, 4), layout="constrained")
        axes = figure.add_subplot()
        peaks = [one.peak / 2**20 for one in self.choices]
        overheads = [100 * one.overhead for one in self.choices]
        axes.step(peaks, overheads, where="post", marker="o")
        axes.set_xlabel("peak of a step, MiB")
        waits = any(one.host_bytes for one in self.points)
        axes.set_ylabel(
            "recomputation and waits for transfers, % of the forward pass"
            if waits
            else "recomputed share of the forward pass, %"
        )
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        if path is not None:
            picture = io.BytesIO()
            figure.savefig(picture, format=kind)
            replace_file(Path(path), picture.getvalue())
        return figure


def _picture_format(path: str | os.PathLike[str]) -> str:
    """Return the format of an image file; raise OptionError if matplotlib cannot draw it."""
    formats = _figure()().canvas.get_supported_filetypes()
    ending = Path(path).suffix.removeprefix(".").lower()
    if ending not in formats:
        raise OptionError(f"{path}: unsupported image format; choose from {', '.join(formats)}")
    return ending


def _figure() -> "type[Figure]":
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise OptionError(
            "the plot needs matplotlib: pip install matplotlib, or use curve.as_rows()"
        ) from error
    return Figure
