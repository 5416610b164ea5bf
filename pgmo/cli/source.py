"""Reads the files that commands are given."""

from pathlib import Path
from typing import TYPE_CHECKING

from pgmo.errors import FileError

if TYPE_CHECKING:
    from pgmo.packing.plan import Plan
    from pgmo.profiler.profile import Profile


def read_profile_or_plan(path: Path) -> "Profile | Plan":
    """Reads a file as what its suffix says.

    Raises:
        FileError: when the suffix is another one, or the file cannot be read.

    Example:
        >>> try:
        ...     read_profile_or_plan(Path("gpt.txt"))
        ... except FileError as error:
        ...     print(error)
        gpt.txt: the suffix '.txt' is neither .pgmoprof nor .pgmoplan; rename the file to what it is
    """
    from pgmo.packing.plan import Plan
    from pgmo.profiler.profile import Profile

    if path.suffix == ".pgmoplan":
        return Plan.load(path)
    if path.suffix == ".pgmoprof":
        return Profile.load(path)
    raise FileError(
        f"{path}: the suffix {path.suffix!r} is neither .pgmoprof nor .pgmoplan; "
        "rename the file to what it is"
    )
