"""Result of an importer for one device."""

from dataclasses import dataclass, field

from pgmo.profiler.profile import Profile
from pgmo.profiler.trace import Trace


@dataclass(frozen=True, eq=False)
class Imported:
    """One device's part of an imported file. `notes` are remarks about the file, by name.

    An unknown framework or device is "". A table of blocks has lifetimes but no addresses: its
    profile is `table`, and `trace` is empty.
    """

    trace: Trace
    framework: str = ""
    device: str = ""
    notes: dict[str, str] = field(default_factory=dict)
    table: Profile | None = None
