"""Result of an importer for one device."""

from dataclasses import dataclass, field

from pgmo.profiler.profile import Profile
from pgmo.profiler.trace import Trace


@dataclass(frozen=True, eq=False)
class Imported:
    """One device's part of an imported file.

    Args:
        trace: the device's events; empty if `table` is given.
        framework: "torch", "cupy", "rmm", or "" if unknown.
        device: "cuda:0", "cpu" or "".
        notes: remarks about the file, by name.
        table: profile of a table of blocks, which has lifetimes but no addresses.
    """

    trace: Trace
    framework: str = ""
    device: str = ""
    notes: dict[str, str] = field(default_factory=dict)
    table: Profile | None = None
