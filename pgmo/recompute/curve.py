"""The trade-off of a step, peak against overhead, as rows, as text and as a picture."""

import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgmo.errors import OptionError
from pgmo.files.replacement import replace_file
from pgmo.recompute.planners.evaluator import Choice
from pgmo.units import format_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Curve:
    """Choices of which none is worse than another in both respects.

    Args:
        choices: in the order of ascending peak; the last one recomputes nothing.
    """

    choices: tuple[Choice, ...]

    def as_rows(self) -> list[dict[str, Any]]:
        """The choices as dictionaries, for JSON or a table."""
        return [
            {"peak": one.peak, "overhead": one.overhead, "planner": one.planner}
            for one in self.choices
        ]

    def __str__(self) -> str:
        lines = [f"{'peak':>10}  {'overhead':>8}  planner"]
        lines += [
            f"{format_bytes(one.peak):>10}  {100 * one.overhead:>6.1f} %  {one.planner}"
            for one in self.choices
        ]
        return "\n".join(lines)

    def plot(self, path: str | os.PathLike[str] | None = None) -> "Figure":
        """Draws overhead over peak; needs matplotlib (`pip install matplotlib`).

        Args:
            path: where to save the picture; its ending is the format.

        Raises:
            OptionError: matplotlib is not installed, or has no such format.
            FileError: the file cannot be written.
        """
        Figure = _figure()  # noqa: N806
        kind = None if path is None else picture_format(path)
        figure = Figure(figsize=(6, 4), layout="constrained")
        axes = figure.add_subplot()
        peaks = [one.peak / 2**20 for one in self.choices]
        overheads = [100 * one.overhead for one in self.choices]
        axes.step(peaks, overheads, where="post", marker="o")
        axes.set_xlabel("peak of a step, MiB")
        axes.set_ylabel("recomputed share of the forward pass, %")
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        if path is not None:
            picture = io.BytesIO()
            figure.savefig(picture, format=kind)
            replace_file(Path(path), picture.getvalue())
        return figure


def picture_format(path: str | os.PathLike[str]) -> str:
    """The format of a picture, as the ending of its name says.

    Raises:
        OptionError: matplotlib is not installed, or has no such format.

    Example:
        >>> picture_format("curve.png")
        'png'
    """
    formats = _figure()().canvas.get_supported_filetypes()
    ending = Path(path).suffix.removeprefix(".").lower()
    if ending not in formats:
        raise OptionError(f"{path}: no picture ends in that; choose from {', '.join(formats)}")
    return ending


def _figure() -> "type[Figure]":
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise OptionError(
            "the plot needs matplotlib: pip install matplotlib, or use curve.as_rows()"
        ) from error
    return Figure
