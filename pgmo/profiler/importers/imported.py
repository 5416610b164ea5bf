"""What an importer makes of a file: one of these for each device."""

from dataclasses import dataclass, field

from pgmo.profiler.profile import Profile
from pgmo.profiler.trace import Trace


@dataclass(frozen=True, eq=False)
class Imported:
    """One device's part of a file.

    Args:
        trace: its events.
        framework: "torch", "cupy", "rmm" or "" when the file does not tell.
        device: "cuda:0", "cpu" or "".
        notes: what is worth knowing about the file, in words, by name.
        table: a table of blocks is no trace: it says when blocks live, and not where. This is
            what it says, and `trace` is empty.
    """

    trace: Trace
    framework: str = ""
    device: str = ""
    notes: dict[str, str] = field(default_factory=dict)
    table: Profile | None = None
