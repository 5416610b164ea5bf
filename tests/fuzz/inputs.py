"""Input number N of a seed, which is the same on every machine and in every process."""

from dataclasses import dataclass
from random import Random

from tests.fuzz.files.archives import archive_file
from tests.fuzz.files.pickles import snapshot_file
from tests.fuzz.files.texts import text_file

_KINDS = {"snapshot": 40, "profile": 15, "plan": 10, "cupy": 8, "rmm": 7, "table": 5}


@dataclass(frozen=True)
class Input:
    """File that is tried.

    Args:
        number: number of the input.
        kind: kind of the file before it was changed.
        suffix: suffix of the file's name.
        data: bytes of the file.
    """

    number: int
    kind: str
    suffix: str
    data: bytes


def make_input(seed: int, number: int) -> Input:
    """Make an input.

    Example:
        >>> make_input(0, 7) == make_input(0, 7)
        True
    """
    random = Random(f"{seed} {number}")
    (kind,) = random.choices(list(_KINDS), list(_KINDS.values()))
    if kind == "snapshot":
        return Input(number, kind, ".pickle", snapshot_file(random))
    if kind in ("profile", "plan"):
        suffix = "pgmoprof" if kind == "profile" else "pgmoplan"
        return Input(number, kind, f".{suffix}", archive_file(random, suffix))
    suffix = {"cupy": ".log", "rmm": ".csv", "table": ".csv"}[kind]
    return Input(number, kind, suffix, text_file(random, kind))
