"""Status line of `pgmo run` while a script runs.

The status line is the last line on the screen. It is erased before the script prints.
"""

import sys
import time
from typing import IO, TYPE_CHECKING, Any, Self

from pgmo.terminal import is_plain, is_terminal, print_message
from pgmo.units import format_bytes

if TYPE_CHECKING:
    from pgmo.runner.supervision import Supervision

_INTERVAL = 0.2
"""Minimum number of seconds between two updates."""

_LOG_FIRST, _LOG_INTERVAL = 5.0, 30.0
"""Minimum seconds until the first status line, and between two, if stderr is not a terminal."""

_ERASE = "\r\x1b[2K"
_PLAIN_WIDTH = 79
"""Maximum width of a status line that is erased with spaces. Many terminals have 80 columns."""


class RunLine:
    """Display of iteration, phase, hits, arena, peak and growth.

    On a terminal, one line is rewritten. Other outputs, such as the log of a batch job, get lines
    at intervals, and only with `live`. With `quiet` and without `live`, nothing is shown.
    """

    def __init__(self, *, quiet: bool = False, live: bool = False) -> None:
        self._shown = False
        self._erase = _ERASE
        self._at_line_start = True  # whether the script's output ends with a newline
        self._next = 0.0
        self._streams = (sys.stdout, sys.stderr)
        self._active = (live or not quiet) and is_terminal()
        self._logs = live and not is_terminal()
        if self._logs:
            self._next = time.monotonic() + _LOG_FIRST

    def __enter__(self) -> Self:
        if self._active:
            from pgmo.cli.terminal.output import console

            self._console = console(stderr=True)  # before stderr is replaced
            if is_plain():
                width = min(self._console.width - 1, _PLAIN_WIDTH)
                self._console.width, self._erase = width, "\r" + " " * width + "\r"
            sys.stdout = _ErasingStream(sys.stdout, self)
            sys.stderr = _ErasingStream(sys.stderr, self)
        return self

    def __exit__(self, *_error: object) -> None:
        if self._active:
            self.erase_before("\n")
            self._active = False
            for name, own in zip(("stdout", "stderr"), self._streams, strict=True):
                if isinstance(getattr(sys, name), _ErasingStream):
                    setattr(sys, name, own)

    def update(self, supervision: "Supervision") -> None:
        """Show the status if it is due. On a terminal, wait until the script has ended its line."""
        now = time.monotonic()
        if self._logs and now >= self._next:
            self._log(supervision, now)
        if not self._active or now < self._next or not self._at_line_start:
            return
        self._next = now + _INTERVAL
        text = "  ".join(describe(supervision))
        if text:
            with self._console.capture() as captured:
                self._console.print(
                    f"[dim]pgmo[/dim] {text}", end="", overflow="crop", no_wrap=True
                )
            self._write(self._erase + captured.get())
            self._shown = True

    def erase_before(self, text: str) -> None:
        """Erase the status line, because the script is about to print `text`."""
        if self._shown:
            self._shown = False
            self._write(self._erase)
        if text:
            self._at_line_start = text.endswith("\n")

    def _log(self, supervision: "Supervision", now: float) -> None:
        text = "  ".join(describe(supervision))
        if text:
            self._next = now + _LOG_INTERVAL
            print_message(f"pgmo: {text.replace('[bold]', '').replace('[/bold]', '')}")

    def _write(self, text: str) -> None:
        self._streams[1].write(text)
        self._streams[1].flush()


def describe(supervision: "Supervision") -> list[str]:
    """Return the status of each device with a completed iteration, with markup for rich."""
    texts = []
    for session in supervision.sessions:
        summary = session.counted()
        if not summary.iterations:
            continue
        parts = [f"iteration {summary.iterations}", f"{session.phase}"]
        last = session.history_end
        if last is not None and last.phase == "replay":
            parts.append(f"hits [bold]{last.hit_rate:.1%}[/bold]")
        if summary.arena and not summary.waits:
            parts.append(f"arena {format_bytes(summary.arena)}")
        peak = summary.peak_slot_bytes + summary.peak_fallback_bytes
        if peak:
            parts.append(f"peak {format_bytes(peak)}")
        if summary.growth is not None:
            parts.append(f"grows {format_bytes(round(summary.growth.rate))} an iteration")
        several = len(supervision.sessions) > 1
        texts.append((f"{session.device}: " if several else "") + " · ".join(parts))
    return texts


class _ErasingStream:
    def __init__(self, stream: IO[str], line: RunLine) -> None:
        self._stream = stream
        self._line = line

    def write(self, text: str) -> int:
        self._line.erase_before(text)
        return self._stream.write(text)

    def writelines(self, lines: Any) -> None:
        for one in lines:
            self.write(one)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __iter__(self) -> Any:
        return iter(self._stream)
